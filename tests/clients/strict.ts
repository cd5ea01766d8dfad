import type { ConversationName } from '../../src/generation/request.ts'
import { framed, protocolOf } from '../gateway/scripted.ts'
import { errorOf, failureOf, wireOf, type Reply, type ReplyPart } from '../matrix/answering.ts'
import type { Json } from './agents.ts'
import { checkBody, Refused } from './strict-rules.ts'

/**
 * A provider for agents that speaks all four protocols, says what a play tells it to, refuses what the real services
 * refuse, and knows each signature
 * that it has given: what it said in a tool loop has to come back with its proof, byte for byte.
 */

/** One thing in a conversation, whatever its protocol. */
export type Entry =
  | { kind: 'instruction' | 'user' | 'answer' | 'result'; text: string }
  | { kind: 'call'; name: string; input: string }
  /** `over`: what the proof is for: a thought, or a call of Google's. */
  | { kind: 'proof'; over: string; proof: string }
  | { kind: 'media' }

export type Seen = {
  protocol: ConversationName
  path: string
  headers: Headers
  body: Json
  entries: Entry[]
  /** The tools that it may call. */
  tools: string[]
  /** The last user text that says `TASK <name>`, and what has happened since. */
  task: string
  rounds: number
  results: string[]
}

/**
 * So many frames come; then the stream ends as if that were all, goes on for ever without a word, or says that it
 * failed.
 */
export type Said = Reply & { breaksAfter?: number; hangsAfter?: number; failsAfter?: number }
export type Refusal = { status: number; message: string }
export type Play = (seen: Seen) => Said | Refusal

const listOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : [])
const textOf = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : listOf(content)
        .map((part) => part.text ?? part.refusal ?? '')
        .join('\n')
const partsOf = (content: unknown): Json[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content)
const isMedia = ({ type }: Json): boolean =>
  ['image', 'image_url', 'input_image', 'document', 'file', 'input_file'].includes(type)

const chatEntries = (body: Json): Entry[] =>
  listOf(body.messages).flatMap((message): Entry[] => {
    const media = partsOf(message.content)
      .filter(isMedia)
      .map((): Entry => ({ kind: 'media' }))
    const text = textOf(message.content)
    if (message.role === 'tool') return [{ kind: 'result', text }, ...media]
    if (message.role !== 'assistant')
      return [{ kind: message.role === 'user' ? 'user' : 'instruction', text }, ...media]
    const thought = textOf(message.reasoning_details)
    return [
      ...listOf(message.reasoning_details)
        .filter(({ signature }) => signature !== undefined)
        .map(({ signature }): Entry => ({ kind: 'proof', over: thought, proof: signature })),
      ...(text === '' ? [] : [{ kind: 'answer' as const, text }]),
      ...listOf(message.tool_calls).map(
        (call): Entry => ({ kind: 'call', name: call.function.name, input: call.function.arguments }),
      ),
    ]
  })

const responsesEntries = (body: Json): Entry[] => [
  ...(body.instructions === undefined ? [] : [{ kind: 'instruction' as const, text: body.instructions as string }]),
  ...(typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : listOf(body.input)).flatMap(
    (item): Entry[] => {
      const of = item as Json
      switch (of.type ?? 'message') {
        case 'reasoning':
          return [{ kind: 'proof', over: textOf(of.summary), proof: of.encrypted_content ?? '' }]
        case 'function_call':
          return [{ kind: 'call', name: of.name, input: of.arguments }]
        case 'custom_tool_call':
          return [{ kind: 'call', name: of.name, input: of.input }]
        case 'function_call_output':
        case 'custom_tool_call_output':
          return [
            { kind: 'result', text: textOf(of.output) },
            ...listOf(of.output)
              .filter(isMedia)
              .map((): Entry => ({ kind: 'media' })),
          ]
        case 'agent_message':
          return [
            {
              kind: 'user',
              text: listOf(of.content)
                .map((part) => part.text ?? part.encrypted_content)
                .join(''),
            },
          ]
        case 'message':
          return [
            {
              kind: of.role === 'user' ? 'user' : of.role === 'assistant' ? 'answer' : 'instruction',
              text: textOf(of.content),
            },
            ...listOf(of.content)
              .filter(isMedia)
              .map((): Entry => ({ kind: 'media' })),
          ]
        default:
          return []
      }
    },
  ),
]

const messagesEntries = (body: Json): Entry[] => [
  { kind: 'instruction', text: textOf(body.system) },
  ...listOf(body.messages).flatMap(({ role, content }) =>
    partsOf(content).flatMap((block): Entry[] => {
      switch (block.type) {
        case 'thinking':
          return [{ kind: 'proof', over: block.thinking, proof: block.signature }]
        case 'tool_use':
          return [{ kind: 'call', name: block.name, input: JSON.stringify(block.input) }]
        case 'tool_result':
          return [
            { kind: 'result', text: textOf(block.content) },
            ...listOf(block.content)
              .filter(isMedia)
              .map((): Entry => ({ kind: 'media' })),
          ]
        case 'text':
          return [
            { kind: role === 'user' ? 'user' : role === 'assistant' ? 'answer' : 'instruction', text: block.text },
          ]
        default:
          return isMedia(block) ? [{ kind: 'media' }] : []
      }
    }),
  ),
]

const geminiEntries = (body: Json): Entry[] => [
  { kind: 'instruction', text: textOf(body.systemInstruction?.parts) },
  ...listOf(body.contents).flatMap(({ role, parts }) =>
    listOf(parts).flatMap((part): Entry[] => {
      const { functionCall: call, functionResponse: result, thoughtSignature: proof } = part
      if (call !== undefined)
        return [
          ...(proof === undefined ? [] : [{ kind: 'proof' as const, over: call.name as string, proof }]),
          { kind: 'call', name: call.name, input: JSON.stringify(call.args ?? {}) },
        ]
      if (result !== undefined)
        return [
          { kind: 'result', text: result.response.output ?? result.response.error ?? JSON.stringify(result.response) },
          ...listOf(result.parts).map((): Entry => ({ kind: 'media' })),
        ]
      if (part.inlineData !== undefined || part.fileData !== undefined) return [{ kind: 'media' }]
      if (part.thought === true) return []
      return [
        ...(proof === undefined ? [] : [{ kind: 'proof' as const, over: part.text as string, proof }]),
        { kind: role === 'user' ? 'user' : 'answer', text: part.text ?? '' },
      ]
    }),
  ),
]

const callText = (name: string, args: unknown): string =>
  `${name} ${JSON.stringify(args ?? {}, (_, value: unknown) => (typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value))}`

const ENTRIES: Record<ConversationName, (body: Json) => Entry[]> = {
  'chat.completions': chatEntries,
  responses: responsesEntries,
  messages: messagesEntries,
  generateContent: geminiEntries,
}

const toolsIn = (body: Json): string[] =>
  [
    ...listOf(body.tools).flatMap(
      (tool) => (tool.functionDeclarations ?? tool.tools ?? [tool.function ?? tool]) as Json[],
    ),
    ...listOf(body.input).flatMap((item) => listOf(item.tools)),
  ].map(({ name }) => name as string)

export const seenIn = (protocol: ConversationName, path: string, headers: Headers, body: Json): Seen => {
  const entries = ENTRIES[protocol](body)
  const begin = entries.findLastIndex((entry) => entry.kind === 'user' && /TASK \S/.test(entry.text))
  const since = entries.slice(begin + 1)
  return {
    protocol,
    path,
    headers,
    body,
    entries,
    tools: toolsIn(body),
    rounds: roundsIn(since),
    task: begin < 0 ? '' : (entries[begin] as { text: string }).text,
    results: since.flatMap((entry) => (entry.kind === 'result' ? [entry.text] : [])),
  }
}

/** A round begins with the first call after the beginning or after results. */
function roundsIn(since: Entry[]): number {
  let [rounds, calling] = [0, false]
  for (const { kind } of since) {
    if (kind === 'call' && !calling) rounds++
    if (kind === 'call' || kind === 'result') calling = kind === 'call'
  }
  return rounds
}

const WAIVER = 'skip_thought_signature_validator'

export class StrictProvider {
  /** All that was asked of it, and why it refused what it refused. */
  readonly seen: Seen[] = []
  readonly refusals: string[] = []
  /** Proofs that came back, and calls of its own that came back bare although they had one. */
  proven = 0
  readonly bare: string[] = []
  /** Tokens that it said were used, in answers that came to their end. */
  readonly used = { prompt: 0, completion: 0 }
  readonly #play: Play
  readonly #proofs = new Map<string, string>()
  /** Call -> the proof it was made under. */
  readonly #made = new Map<string, string>()
  readonly #server: ReturnType<typeof Bun.serve>
  #answers = 0

  constructor(play: Play) {
    this.#play = play
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`
  }
  stop(): Promise<void> {
    return this.#server.stop(true)
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname
    const protocol = protocolOf(path)
    const body = JSON.parse(await request.text()) as Json
    if (path.endsWith('count_tokens')) return Response.json({ input_tokens: 4321 })
    if (path.endsWith(':countTokens')) return Response.json({ totalTokens: 4321 })
    const seen = seenIn(protocol, path, request.headers, body)
    this.seen.push(seen)
    try {
      checkBody(protocol, body, request.headers.get('anthropic-beta') ?? '')
      this.#checkProofs(seen)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.refusals.push(`${protocol} ${error.message}`)
      return Response.json(errorOf(protocol, error.message), { status: 400 })
    }
    const said = this.#play(seen)
    if ('status' in said)
      return Response.json(errorOf(protocol, said.message), { status: said.status, headers: { 'retry-after': '1' } })
    return this.#say(seen, said)
  }

  #checkProofs({ protocol, entries }: Seen): void {
    let last = ''
    const begin = entries.findLastIndex((entry) => entry.kind === 'user')
    for (const [index, entry] of entries.entries()) {
      if (entry.kind === 'proof') {
        if (entry.proof === WAIVER) continue
        const over = this.#proofs.get(entry.proof)
        if (over === undefined) throw new Refused(`a signature that was never given: ${entry.proof.slice(0, 40)}`)
        if (over !== entry.over) throw new Refused(`a signature over something else: ${entry.over} instead of ${over}`)
        last = entry.proof
        this.proven++
      }
      if (entry.kind === 'result' || entry.kind === 'user') last = ''
      if (entry.kind !== 'call' || index < begin) continue
      const made = this.#made.get(callText(entry.name, parsed(entry.input)))
      if (made !== undefined && made !== last) this.bare.push(`${protocol} ${entry.name}`)
    }
  }

  /** Remembers what was proven: a thought, or of Google's answers the first part behind it. */
  #prove(protocol: ConversationName, parts: readonly ReplyPart[]): void {
    let proof: string | undefined
    for (const part of parts) {
      if (part.type === 'reasoning') {
        proof = part.signature
        if (protocol !== 'generateContent') this.#proofs.set(proof, part.text)
      } else if (proof !== undefined) {
        // A client may spell a call anew, with defaults put in.
        if (!this.#proofs.has(proof)) this.#proofs.set(proof, part.type === 'call' ? part.name! : part.text)
        if (part.type === 'call') this.#made.set(callText(part.name!, parsed(part.args)), proof)
      }
    }
  }

  #say({ protocol, path, body }: Seen, said: Said): Response {
    const number = ++this.#answers
    // Google signs the first call of an answer, whatever was said before it.
    const calls = protocol === 'generateContent' && said.parts.some(({ type }) => type === 'call')
    const parts = calls
      ? [...said.parts.filter(({ type }) => type === 'text'), ...said.parts.filter(({ type }) => type !== 'text')]
      : said.parts
    this.#prove(protocol, parts)
    const { whole, frames } = wireOf(protocol, { ...said, parts })
    // Real ids are given once.
    const own = (text: string): string =>
      text
        .replace(/"(rs|fc|ctc|msg)_(\d+)"/g, `"$1_$2x${number}"`)
        .replace(/"(chatcmpl-|resp_|msg_|gresp-)up"/g, `"$1up${number}"`)
    const cut = said.breaksAfter ?? said.hangsAfter ?? said.failsAfter ?? frames.length
    if (cut === frames.length) {
      this.used.prompt += said.usage.prompt
      this.used.completion += said.usage.completion
    }
    if (body.stream !== true && !path.includes(':stream'))
      return new Response(own(JSON.stringify(whole)), { headers: { 'content-type': 'application/json' } })
    const some = framed([
      ...frames.slice(0, cut),
      ...(said.failsAfter === undefined ? [] : [failureOf(protocol, 'far too busy')]),
    ])
    return new Response(
      new ReadableStream({
        start: async (controller) => {
          controller.enqueue(new TextEncoder().encode(own(some)))
          await Bun.sleep(10)
          if (said.hangsAfter === undefined) controller.close()
        },
      }),
      { headers: { 'content-type': 'text/event-stream' } },
    )
  }
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return { input: text }
  }
}
