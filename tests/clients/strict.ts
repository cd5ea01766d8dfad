import type { ConversationName } from '../../src/generation/request.ts'
import { framed, protocolOf } from '../gateway/scripted.ts'
import { errorBodyOf, failureFrameOf, responseOf, type Reply, type ReplyPart } from '../matrix/provider-replies.ts'
import type { Json } from './agents.ts'
import { checkBody, Refused } from './strict-rules.ts'

/**
 * A provider with all four protocols whose responses are scripted. It refuses what the real services refuse, and
 * requires each signature that it issued in a tool loop back, byte for byte.
 */

/** An element of a conversation in any protocol. */
export type Entry =
  | { kind: 'instruction' | 'user' | 'answer' | 'result'; text: string }
  | { kind: 'call'; name: string; input: string }
  /** `over`: the content that is signed: the text of reasoning or, for Google, the name of a call. */
  | { kind: 'signature'; over: string; signature: string }
  | { kind: 'media' }

export type ReceivedRequest = {
  protocol: ConversationName
  path: string
  headers: Headers
  body: Json
  entries: Entry[]
  /** The tools that the model may call. */
  tools: string[]
  /** The last user text that contains `TASK <name>`; `rounds` and `results` count from there. */
  task: string
  rounds: number
  results: string[]
}

/** After so many frames the stream ends as if it were complete, stays open without data, or sends an error. */
export type ScriptedReply = Reply & { breaksAfter?: number; hangsAfter?: number; failsAfter?: number }
export type Refusal = { status: number; message: string }
export type Script = (request: ReceivedRequest) => ScriptedReply | Refusal

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
    const reasoning = textOf(message.reasoning_details)
    return [
      ...listOf(message.reasoning_details)
        .filter(({ signature }) => signature !== undefined)
        .map(({ signature }): Entry => ({ kind: 'signature', over: reasoning, signature })),
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
          return [{ kind: 'signature', over: textOf(of.summary), signature: of.encrypted_content ?? '' }]
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
          return [{ kind: 'signature', over: block.thinking, signature: block.signature }]
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
      const { functionCall: call, functionResponse: result, thoughtSignature: signature } = part
      if (call !== undefined)
        return [
          ...(signature === undefined ? [] : [{ kind: 'signature' as const, over: call.name as string, signature }]),
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
        ...(signature === undefined ? [] : [{ kind: 'signature' as const, over: part.text as string, signature }]),
        { kind: role === 'user' ? 'user' : 'answer', text: part.text ?? '' },
      ]
    }),
  ),
]

const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort())
    : value
/** A call in a form that does not depend on the order of its arguments. */
const callText = (name: string, args: unknown): string => `${name} ${JSON.stringify(args ?? {}, sorted)}`

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

export const receivedRequest = (
  protocol: ConversationName,
  path: string,
  headers: Headers,
  body: Json,
): ReceivedRequest => {
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

/** The number of rounds. One begins with the first call, or with the first call after results. */
function roundsIn(since: Entry[]): number {
  let [rounds, calling] = [0, false]
  for (const { kind } of since) {
    if (kind === 'call' && !calling) rounds++
    if (kind === 'call' || kind === 'result') calling = kind === 'call'
  }
  return rounds
}

const PLACEHOLDER = 'skip_thought_signature_validator'

export class StrictProvider {
  readonly received: ReceivedRequest[] = []
  /** The reason of each refused request. */
  readonly refusals: string[] = []
  /** Number of signatures that came back. */
  verified = 0
  /** Calls that were issued with a signature and came back without it. */
  readonly unsigned: string[] = []
  /** Tokens reported in complete responses. */
  readonly used = { prompt: 0, completion: 0 }
  readonly #script: Script
  readonly #signatures = new Map<string, string>()
  /** Call -> its signature. */
  readonly #signatureOfCall = new Map<string, string>()
  readonly #server: ReturnType<typeof Bun.serve>
  #responses = 0

  constructor(script: Script) {
    this.#script = script
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      fetch: (request) => this.#fetch(request),
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`
  }
  stop(): Promise<void> {
    return this.#server.stop(true)
  }

  async #fetch(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname
    const protocol = protocolOf(path)
    const body = JSON.parse(await request.text()) as Json
    if (path.endsWith('count_tokens')) return Response.json({ input_tokens: 4321 })
    if (path.endsWith(':countTokens')) return Response.json({ totalTokens: 4321 })
    const received = receivedRequest(protocol, path, request.headers, body)
    this.received.push(received)
    try {
      checkBody(protocol, body, request.headers.get('anthropic-beta') ?? '')
      this.#checkSignatures(received)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.refusals.push(`${protocol} ${error.message}`)
      return Response.json(errorBodyOf(protocol, error.message), { status: 400 })
    }
    const reply = this.#script(received)
    if ('status' in reply)
      return Response.json(errorBodyOf(protocol, reply.message), {
        status: reply.status,
        headers: { 'retry-after': '1' },
      })
    return this.#respond(received, reply)
  }

  #checkSignatures({ protocol, entries }: ReceivedRequest): void {
    let last = ''
    const begin = entries.findLastIndex((entry) => entry.kind === 'user')
    for (const [index, entry] of entries.entries()) {
      if (entry.kind === 'signature') {
        if (entry.signature === PLACEHOLDER) continue
        const over = this.#signatures.get(entry.signature)
        if (over === undefined)
          throw new Refused(`a signature that was not issued here: ${entry.signature.slice(0, 40)}`)
        if (over !== entry.over) throw new Refused(`a signature of other content: ${entry.over} instead of ${over}`)
        last = entry.signature
        this.verified++
      }
      if (entry.kind === 'result' || entry.kind === 'user') last = ''
      if (entry.kind !== 'call' || index < begin) continue
      const issued = this.#signatureOfCall.get(callText(entry.name, parsed(entry.input)))
      if (issued !== undefined && issued !== last) this.unsigned.push(`${protocol} ${entry.name}`)
    }
  }

  /** Stores each signature with its content: the reasoning or, for Google, the first part after it. */
  #storeSignatures(protocol: ConversationName, parts: readonly ReplyPart[]): void {
    let signature: string | undefined
    for (const part of parts) {
      if (part.type === 'reasoning') {
        signature = part.signature
        if (protocol !== 'generateContent') this.#signatures.set(signature, part.text)
      } else if (signature !== undefined) {
        // A client may serialize a call again, with defaults filled in.
        if (!this.#signatures.has(signature))
          this.#signatures.set(signature, part.type === 'call' ? part.name! : part.text)
        if (part.type === 'call') this.#signatureOfCall.set(callText(part.name!, parsed(part.args)), signature)
      }
    }
  }

  #respond({ protocol, path, body }: ReceivedRequest, reply: ScriptedReply): Response {
    const number = ++this.#responses
    // Google signs the first call of an answer, whatever precedes it.
    const calls = protocol === 'generateContent' && reply.parts.some(({ type }) => type === 'call')
    const parts = calls
      ? [...reply.parts.filter(({ type }) => type === 'text'), ...reply.parts.filter(({ type }) => type !== 'text')]
      : reply.parts
    this.#storeSignatures(protocol, parts)
    const { whole, frames } = responseOf(protocol, { ...reply, parts })
    // The ids of real services are unique.
    const withOwnIds = (text: string): string =>
      text
        .replace(/"(rs|fc|ctc|msg)_(\d+)"/g, `"$1_$2x${number}"`)
        .replace(/"(chatcmpl-|resp_|msg_|gresp-)up"/g, `"$1up${number}"`)
    const cut = reply.breaksAfter ?? reply.hangsAfter ?? reply.failsAfter ?? frames.length
    if (cut === frames.length) {
      this.used.prompt += reply.usage.prompt
      this.used.completion += reply.usage.completion
    }
    if (body.stream !== true && !path.includes(':stream'))
      return new Response(withOwnIds(JSON.stringify(whole)), { headers: { 'content-type': 'application/json' } })
    const some = framed([
      ...frames.slice(0, cut),
      ...(reply.failsAfter === undefined ? [] : [failureFrameOf(protocol, 'far too busy')]),
    ])
    return new Response(
      new ReadableStream({
        start: async (controller) => {
          controller.enqueue(new TextEncoder().encode(withOwnIds(some)))
          await Bun.sleep(10)
          if (reply.hangsAfter === undefined) controller.close()
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
