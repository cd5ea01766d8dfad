import { written } from '../translating.ts'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import { promptTokens } from '../../src/generation/usage.ts'
import { FrameSplitter, type Frame } from '../../src/http/frames.ts'
import { gemini } from '../../src/protocols/gemini/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { checkGrammar, sentences } from '../grammar.ts'
import { runs } from '../runs.ts'
import { haveRecordings, rowsOf, textOf, type Row } from './recordings.ts'

const rows = rowsOf('google-generate-content')
const bytesOf = (row: Row): Uint8Array => readFileSync(row.files.response)
const bodyOf = (row: Row): string => textOf(row.files.request!)
const isSse = (row: Row): boolean => row.files.response.endsWith('.sse')
/** Bodies that are no responses, with the status 200. */
const NO_RESPONSES = new Set([
  'firebase-mock__vertexai-unary-failure-invalid-location-url-not-found.html',
  'firebase-mock__vertexai-unary-failure-invalid-response',
])
const answered = rows.filter((row) => row.status === 200 && !NO_RESPONSES.has(row.id))
const named = (some: Row[]): [string, Row][] => some.map((row) => [row.id, row])

const framesOf = (pieces: Uint8Array[]): Frame[] => {
  const splitter = new FrameSplitter()
  return [...pieces.flatMap((piece) => splitter.push(piece)), ...splitter.end()]
}
const eventsOf = (frames: Frame[]): GenerationEvent[] => {
  const reader = gemini.call.reader({})
  return [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
}
const answerOf = (row: Row): GenerationEvent[] =>
  isSse(row) ? eventsOf(framesOf([bytesOf(row)])) : gemini.call.readResponse(JSON.parse(textOf(row.files.response)), {})
const chunksOf = (row: Row): Record<string, any>[] =>
  isSse(row)
    ? framesOf([bytesOf(row)]).flatMap((frame) => {
        try {
          return [JSON.parse(frame.data)]
        } catch {
          return []
        }
      })
    : [JSON.parse(textOf(row.files.response))].flat()
const withoutGeneratedIds = (events: GenerationEvent[]): string =>
  JSON.stringify(events).replace(/call_[0-9a-f]{32}_\d+/g, 'call_generated')

const context: TranslationContext = {
  rawRequest: { body: {}, text: '{}', headers: new Headers() },
  request: {
    model: 'acme/model',
    system: [],
    turns: [],
    tools: [],
    sampling: {},
    stream: true,
    protocol: 'generateContent',
    extras: {},
  },
  responseIdentity: { id: 'gen-1', model: 'acme/model', createdAt: 1_700_000_000 },
}

/**
 * Streams without a complete response: no content or finish reason, malformed, or with an error. One counts as a
 * success for Google's SDKs, which take any end of the connection for the end of the response.
 */
const BROKEN = new Set([
  'composite__mid-stream-error-overloaded-test-code-execution-stream',
  'firebase-mock__vertexai-streaming-failure-empty-content',
  'firebase-mock__vertexai-streaming-success-quotes-escaped',
  'firebase-mock__vertexai-streaming-failure-malformed-content',
  'firebase-mock__vertexai-streaming-failure-invalid-json',
  'firebase-mock__vertexai-streaming-failure-error-mid-stream',
])

describe.skipIf(!haveRecordings)('recorded generateContent', () => {
  test('there are recordings', () => expect(answered.length).toBeGreaterThan(90))

  test.each(named(answered.filter((row) => row.files.request !== undefined)))('reads the request of %s', (_, row) => {
    const text = bodyOf(row)
    const body = JSON.parse(text)
    const request = gemini.serve.readRequest({ body, text, model: 'm', stream: row.stream, headers: new Headers() })
    const texts = request.turns.flatMap((turn) =>
      turn.parts.flatMap((part) => (part.type === 'text' || part.type === 'reasoning' ? [part.text] : [])),
    )
    // Consecutive texts of the model are one text: Google's SDK keeps the pieces of a stream.
    const own = body.contents.flatMap(({ role, parts }: any) =>
      parts.flatMap((part: any, index: number) => {
        const follows = (one: any): boolean => one?.text !== undefined && !one.thought && !one.thoughtSignature
        if (role !== 'model' || !follows(part)) return part.text ?? []
        if (follows(parts[index - 1])) return []
        const end = parts.findIndex((one: any, at: number) => at > index && !follows(one))
        const run = parts.slice(index, end === -1 ? undefined : end)
        return [run.map((one: any) => one.text).join('')]
      }),
    )
    expect(texts.filter((one) => one !== '')).toEqual(own.filter((one: string) => one !== ''))
    const ids = request.turns.flatMap((turn) =>
      turn.parts.flatMap((part) => (part.type === 'tool-call' ? [part.id] : [])),
    )
    for (const turn of request.turns)
      for (const part of turn.parts) if (part.type === 'tool-result') expect(ids).toContain(part.callId)
  })

  test.each(named(answered.filter((row) => !BROKEN.has(row.id))))('reads the text, calls and usage of %s', (_, row) => {
    const events = answerOf(row)
    checkGrammar(events)
    const answer = fold(events)
    const chunks = chunksOf(row)
    const parts = chunks.flatMap((chunk) => chunk['candidates']?.[0]?.content?.parts ?? [])
    const textOfParts = (thought: boolean) =>
      parts
        .filter((part: any) => typeof part.text === 'string' && (part.thought === true) === thought)
        .map((part: any) => part.text)
        .join('')
    expect(answer.parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('')).toBe(textOfParts(false))
    expect(answer.parts.flatMap((part) => (part.type === 'reasoning' ? [part.text] : [])).join('')).toBe(
      textOfParts(true),
    )
    expect(answer.parts.filter((part) => part.type === 'tool-call').map((part) => part.name)).toEqual(
      parts.flatMap((part: any) => part.functionCall?.name ?? []),
    )
    const signatures = answer.parts.flatMap((part) =>
      part.type === 'native'
        ? ((part.value as any).thoughtSignature ?? [])
        : 'signature' in part
          ? (part.signature?.data ?? [])
          : [],
    )
    expect(signatures).toEqual(parts.flatMap((part: any) => part.thoughtSignature ?? []))
    // Counts are running totals: the last chunk that has one.
    const total = (name: string): number => chunks.reduce((sum, chunk) => chunk['usageMetadata']?.[name] ?? sum, 0)
    const { usage } = answer
    expect(promptTokens(usage)).toBe(total('promptTokenCount') + total('toolUsePromptTokenCount'))
    expect(usage.cacheReadTokens).toBe(total('cachedContentTokenCount'))
    expect(usage.outputTokens + usage.outputAudioTokens + usage.outputImageTokens).toBe(total('candidatesTokenCount'))
    expect(usage.reasoningTokens).toBe(total('thoughtsTokenCount'))
    const raw = chunks.reduce(
      (last, chunk) => chunk['candidates']?.[0]?.finishReason ?? last,
      chunks.find((chunk) => chunk['promptFeedback']?.blockReason)?.['promptFeedback'].blockReason ?? '',
    )
    // Three recordings went through protobuf, where STOP is 1.
    if (raw !== '') expect(answer.finish.raw).toBe(raw === 1 ? 'STOP' : raw)
    const passages = chunks
      .flatMap(
        (chunk) =>
          (chunk['candidates']?.[0]?.groundingMetadata?.groundingSupports ?? []) as { segment: { text: string } }[],
      )
      .map(({ segment }) => segment.text)
    for (const part of answer.parts) {
      if (part.type === 'tool-call') expect(typeof JSON.parse(part.arguments)).toBe('object')
      if (part.type === 'text')
        for (const { start, end } of part.citations ?? [])
          if (start !== undefined && passages.length > 0) expect(passages).toContain(part.text.slice(start, end))
    }
  })

  test.each(named(answered.filter((row) => BROKEN.has(row.id))))('a broken stream ends with an error: %s', (_, row) => {
    const events = answerOf(row)
    checkGrammar(events)
    expect(events.at(-1)).toMatchObject({
      type: 'error',
      error: {
        code:
          row.kinds.includes('overloaded') || /UNAVAILABLE/.test(textOf(row.files.response))
            ? 'overloaded'
            : 'upstream_error',
      },
    })
  })

  test.each(named(answered.filter(isSse)))('reads the same events from pieces of any size: %s', (_, row) => {
    const bytes = bytesOf(row)
    const whole = withoutGeneratedIds(eventsOf(framesOf([bytes])))
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (cuts) => {
        const points = [0, ...cuts.sort((a, b) => a - b), bytes.length]
        expect(
          withoutGeneratedIds(
            eventsOf(framesOf(points.slice(1).map((end, index) => bytes.subarray(points[index], end)))),
          ),
        ).toBe(whole)
      }),
      { numRuns: runs(5, 150) },
    )
  })

  test.each(named(answered.filter(isSse)))(
    'a stream that is cut before its finish reason ends with an error: %s',
    (_, row) => {
      const frames = framesOf([bytesOf(row)])
      for (const [index] of frames.entries()) {
        const events = eventsOf(frames.slice(0, index))
        checkGrammar(events)
        const ended = frames
          .slice(0, index)
          .some(({ data }) => /"(finishReason|blockReason|promptFeedback)"/.test(data))
        if (!ended) expect(events.at(-1)?.type).toBe('error')
      }
    },
  )

  test.each(named(answered))('replaces only the id and the model of %s', (_, row) => {
    const passthrough = gemini.passthrough(context)
    const texts: [string, string | undefined][] = isSse(row)
      ? framesOf([bytesOf(row)])
          .filter(({ data }) => !data.includes('"error"'))
          .map((frame) => [frame.data, passthrough.frame(frame)?.data])
      : Array.isArray(JSON.parse(textOf(row.files.response)))
        ? []
        : [[textOf(row.files.response), passthrough.answer(textOf(row.files.response))]]
    for (const [before, after] of texts) {
      let original: unknown
      try {
        original = JSON.parse(before)
      } catch {
        expect(after).toBeUndefined()
        continue
      }
      expect(JSON.parse(after!)).toEqual({ ...(original as object), responseId: 'gen-1', modelVersion: 'acme/model' })
    }
  })

  test.each(named(answered.filter((row) => !BROKEN.has(row.id))))(
    'a response that is written and read again is the same: %s',
    (_, row) => {
      const events = answerOf(row)
      const writer = gemini.serve.writer(context)
      const again = fold(eventsOf(events.flatMap((event) => writer.write(event))))
      const first = fold(events)
      // The writer has sent a text before it knows its signature, which follows in a part without a text.
      const signedApart = ({ parts }: typeof first) =>
        parts.flatMap((part) => {
          if (part.type !== 'text' || part.signature === undefined || part.text === '') return [part]
          const { signature, ...text } = part
          return [text, { type: 'text' as const, text: '', signature }]
        })
      const plain = (response: typeof first) =>
        signedApart(response).map((part) =>
          part.type === 'text'
            ? {
                ...part,
                citations: new Set(
                  part.citations
                    ?.filter(({ url, title, citedText }) => (url ?? title ?? citedText) !== undefined)
                    .map(({ url, title, citedText }) => `${url} ${title} ${citedText}`),
                ),
                logprobs: part.logprobs?.length,
              }
            : part,
        )
      expect(plain(again)).toEqual(plain(first))
      expect(again.usage).toEqual(first.usage)
    },
  )

  test.each(named(rows.filter((row) => row.status !== 200)))('reads the error of %s', (_, row) => {
    const text = textOf(row.files.response)
    const error = gemini.call.readError(row.status, text)
    expect(error.metadata).toMatchObject({ status: row.status })
    const credentials = row.status === 403 || /api[ _]key/i.test(text)
    expect(error.status).toBe(credentials ? 502 : row.status)
    if (row.kinds.includes('retry-info') || text.includes('retryDelay'))
      expect(error.retryAfterSeconds).toBeGreaterThan(0)
  })
})

const SCHEMA = resolve(import.meta.dir, '../../../shared/specs/schemas/vertex-generate-content.schema.json')

/** Google's published schema, made strict: members that it does not list are mistakes. */
function validator(root: 'request' | 'response'): (value: unknown) => string {
  const schema = JSON.parse(readFileSync(SCHEMA, 'utf8'))
  for (const definition of Object.values<any>(schema.$defs))
    if (definition.properties !== undefined) definition.additionalProperties = false
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  const validate = ajv.compile({ $defs: schema.$defs, $ref: `#/$defs/${schema.roots[root]}` })
  return (value) => (validate(value) ? '' : ajv.errorsText(validate.errors))
}

/**
 * These use fields of the other one of Google's two APIs, or names in snake case, which are passed through: time ranges
 * of searches, calls of Google's own tools in the history, and `code_execution`.
 */
const OTHER_API = [
  /^lingua__webSearchToolAdvancedParam-/,
  /^pydantic-ai__structured-output-function-tools-with-builtin-tools.t2$/,
  /^ruby_llm__chat-code-execution-with-gemini-gemini-3-5-flash-/,
]

describe.skipIf(!existsSync(SCHEMA))("Google's schema of generateContent", () => {
  const response = existsSync(SCHEMA) ? validator('response') : () => ''
  const request = existsSync(SCHEMA) ? validator('request') : () => ''

  test('accepts every chunk and every response that Sluice writes', () => {
    expect(response({ candidates: [{ finish_reason: 'STOP' }] })).not.toBe('')
    expect(response({ choices: [] })).not.toBe('')
    fc.assert(
      fc.property(sentences({ errors: false }), (events) => {
        const writer = gemini.serve.writer(context)
        for (const frame of events.flatMap((event) => writer.write(event)))
          expect(response(JSON.parse(frame.data))).toBe('')
        expect(response(JSON.parse(JSON.stringify(gemini.serve.writeResponse(fold(events), context))))).toBe('')
      }),
      { numRuns: runs(100, 3_000) },
    )
  })

  test.each(
    named(answered.filter((row) => row.files.request !== undefined && !OTHER_API.some((one) => one.test(row.id)))),
  )('accepts the request of %s after it is read and written again', (_, row) => {
    const text = bodyOf(row)
    const read = gemini.serve.readRequest({
      body: JSON.parse(text),
      text,
      model: 'm',
      stream: row.stream,
      headers: new Headers(),
    })
    for (const reasoning of ['level', 'budget'] as const) {
      const { body } = written(
        'generateContent',
        { ...read, extras: {} },
        { provider: 'p', model: 'm', quirks: {}, capabilities: { reasoning } },
      )
      expect(request(JSON.parse(JSON.stringify(body)))).toBe('')
    }
  })
})

describe.skipIf(!haveRecordings)('damaged recorded requests', () => {
  const damages = fc.tuple(
    fc.nat(),
    fc.oneof(
      fc.jsonValue(),
      fc.constantFrom<unknown>(null, [], {}, [null], [[]], { role: 'x' }, 1e400, -1, 'x'.repeat(100)),
    ),
  )
  const bodies = answered
    .filter((row) => row.files.request !== undefined)
    .map(bodyOf)
    .filter((text) => text.length < 20_000)

  test('a damaged request is read or refused with a path', () => {
    fc.assert(
      fc.property(fc.nat(bodies.length - 1), fc.array(damages, { minLength: 1, maxLength: 3 }), (index, all) => {
        const body = JSON.parse(bodies[index]!)
        for (const [index, value] of all) {
          const positions = positionsOf(body)
          const [holder, key] = positions[index % positions.length] ?? [body, 'contents']
          holder[key] = structuredClone(value)
        }
        const text = JSON.stringify(body)
        try {
          gemini.serve.readRequest({ body: JSON.parse(text), text, model: 'm', headers: new Headers() })
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError)
          expect((error as GatewayError).param).toBeDefined()
        }
      }),
      { numRuns: runs(1_000, 30_000) },
    )
  })
})

function positionsOf(value: any, found: [any, string][] = []): [any, string][] {
  if (typeof value !== 'object' || value === null) return found
  for (const key of Object.keys(value)) {
    found.push([value, key])
    positionsOf(value[key], found)
  }
  return found
}
