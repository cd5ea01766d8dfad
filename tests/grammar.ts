import fc from 'fast-check'
import { GatewayError } from '../src/error.ts'
import { FINISH_REASONS, type GenerationEvent, type PartHead } from '../src/generation/event.ts'
import { noUsage, type Usage } from '../src/generation/usage.ts'

const BUCKETS = new Set(Object.keys(noUsage()))

/**
 * Throws unless the events match `start (part-start part-delta* part-end | usage)* (finish | error)`, with usage also
 * allowed inside a part, parts numbered from 0 without gaps, and `error` allowed as the very first event.
 */
export function checkGrammar(events: readonly GenerationEvent[]): void {
  let started = false
  let ended = false
  let open: PartHead | undefined
  let next = 0
  const fail = (index: number, why: string): never => {
    const around = events.slice(Math.max(0, index - 3), index + 1)
    throw new Error(`event ${index} (${events[index]?.type ?? 'end'}): ${why}\n${JSON.stringify(around)}`)
  }
  for (const [index, event] of events.entries()) {
    if (ended) fail(index, 'is after the end')
    if (!started && event.type !== 'start' && event.type !== 'error') fail(index, 'is before start')
    switch (event.type) {
      case 'start':
        if (started) fail(index, 'second start')
        if (typeof event.id !== 'string' || typeof event.model !== 'string') fail(index, 'id and model must be strings')
        started = true
        break
      case 'part-start':
        if (open !== undefined) fail(index, 'a part is open')
        if (event.part !== next) fail(index, `must be part ${next}, is ${event.part}`)
        open = event.head
        next++
        break
      case 'part-delta':
        if (open === undefined || event.part !== next - 1) fail(index, 'no such part is open')
        if (typeof event.text !== 'string') fail(index, 'text must be a string')
        if (open?.type === 'citation' || open?.type === 'native') fail(index, `${open.type} has no deltas`)
        break
      case 'part-end':
        if (open === undefined || event.part !== next - 1) fail(index, 'no such part is open')
        open = undefined
        break
      case 'usage':
        for (const [bucket, value] of Object.entries(event.usage)) {
          if (!BUCKETS.has(bucket) || !Number.isSafeInteger(value) || value < 0) fail(index, `${bucket}=${value}`)
        }
        break
      case 'finish':
        if (open !== undefined) fail(index, 'a part is open')
        ended = true
        break
      case 'error':
        if (!(event.error instanceof GatewayError)) fail(index, 'must carry a GatewayError')
        ended = true
        break
    }
  }
  if (!ended) fail(events.length, 'no finish and no error')
}

export type SentenceOptions = {
  /** Kinds of parts to use; all but `native` by default. */
  kinds?: PartHead['type'][]
  /** Sentences that end with an error too. Default true. */
  errors?: boolean
}

/** Random event sequences that match the grammar, for the writers. */
export function sentences({
  kinds = ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'audio', 'citation'],
  errors = true,
}: SentenceOptions = {}): fc.Arbitrary<GenerationEvent[]> {
  const part = fc.tuple(
    fc.constantFrom(...kinds),
    fc.array(text, { maxLength: 4 }),
    fc.option(fc.base64String({ minLength: 4 }), { nil: undefined }),
    fc.nat(1e6),
  )
  const piece: fc.Arbitrary<Piece> = fc.oneof(
    {
      weight: 4,
      arbitrary: part.map(([kind, deltas, signature, salt]): Piece => partOf(kind, deltas, signature, salt)),
    },
    { weight: 1, arbitrary: usages.map((usage): Piece => ({ usage })) },
  )
  const end = errors ? fc.oneof({ weight: 4, arbitrary: finish }, { weight: 1, arbitrary: failure }) : finish
  return fc
    .tuple(fc.array(piece, { maxLength: 8 }), end)
    .map(([pieces, last]) => [{ type: 'start', id: 'upstream-1', model: 'upstream-model' }, ...numbered(pieces), last])
}

type Piece = { usage: Partial<Usage> } | { head: PartHead; deltas: string[]; signature?: string }

const text = fc.string({ unit: 'grapheme', maxLength: 12 })

const usages: fc.Arbitrary<Partial<Usage>> = fc.record(
  { inputTokens: fc.nat(1e6), outputTokens: fc.nat(1e6), reasoningTokens: fc.nat(1e5), cacheReadTokens: fc.nat(1e5) },
  { requiredKeys: ['inputTokens'] },
)

const finish: fc.Arbitrary<GenerationEvent> = fc
  .constantFrom(...FINISH_REASONS)
  .map((reason) => ({ type: 'finish', reason, raw: `raw-${reason}` }))
const failure: fc.Arbitrary<GenerationEvent> = fc
  .constantFrom('upstream_error' as const, 'overloaded' as const, 'upstream_rate_limited' as const)
  .map((code) => ({ type: 'error', error: new GatewayError(code, `made ${code}`) }))

function partOf(kind: PartHead['type'], deltas: string[], signature: string | undefined, salt: number): Piece {
  const signed = signature === undefined ? {} : { signature }
  switch (kind) {
    case 'text':
    case 'refusal':
      return { head: { type: kind }, deltas, ...(kind === 'text' ? signed : {}) }
    case 'reasoning':
      return salt % 5 === 0 && signature !== undefined
        ? { head: { type: 'reasoning', redacted: true }, deltas: [], signature }
        : { head: { type: 'reasoning' }, deltas, ...signed }
    case 'tool-call':
      return {
        head: { type: 'tool-call', id: `call_${salt}`, name: `tool_${salt % 7}`, form: 'function' },
        deltas: chopped(JSON.stringify({ salt, text: deltas.join('') }), salt),
        ...signed,
      }
    case 'image':
      return { head: { type: 'image', mediaType: 'image/png' }, deltas: [Buffer.from(`png${salt}`).toString('base64')] }
    case 'audio':
      return { head: { type: 'audio', mediaType: 'audio/wav' }, deltas: [Buffer.from(`wav${salt}`).toString('base64')] }
    case 'citation':
      return {
        head: { type: 'citation', citation: { url: `https://example.com/${salt}`, title: `Title ${salt}` } },
        deltas: [],
      }
    case 'native':
      return { head: { type: 'native', protocol: 'messages', kind: 'container_upload', value: { salt } }, deltas: [] }
  }
}

const chopped = (whole: string, salt: number): string[] => {
  const at = whole.length === 0 ? 0 : salt % whole.length
  return [whole.slice(0, at), whole.slice(at)].filter((piece) => piece !== '')
}

function numbered(pieces: Piece[]): GenerationEvent[] {
  const events: GenerationEvent[] = []
  let part = 0
  for (const piece of pieces) {
    if ('usage' in piece) {
      events.push({ type: 'usage', usage: piece.usage })
      continue
    }
    // No provider gives two calls of one answer the same id.
    const head = piece.head.type === 'tool-call' ? { ...piece.head, id: `${piece.head.id}_${part}` } : piece.head
    events.push({ type: 'part-start', part, head })
    for (const delta of piece.deltas) events.push({ type: 'part-delta', part, text: delta })
    events.push({ type: 'part-end', part, ...(piece.signature === undefined ? {} : { signature: piece.signature }) })
    part++
  }
  return events
}
