import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { isObject } from '../../src/json/parse.ts'
import type { Recording } from './recordings.ts'

/**
 * Requests and whole responses in the tests of other gateways' translations, kept outside the repository like the
 * recordings. What those gateways make of them is not used.
 */
const folder = join(import.meta.dir, '../../../shared/exams')

const PROTOCOLS: Record<string, ConversationName> = {
  'chat-completions': 'chat.completions',
  completions: 'chat.completions',
  'openai-chat': 'chat.completions',
  responses: 'responses',
  'openai-responses': 'responses',
  anthropic: 'messages',
  messages: 'messages',
  'anthropic-messages': 'messages',
  google: 'generateContent',
  gemini: 'generateContent',
  'vertex-gemini': 'generateContent',
  'google-generate-content': 'generateContent',
}

/** A count of tokens; invented responses that no provider gives: wrong sums, and one without a candidate. */
const WRONG = [
  /^agentgateway response\/anthropic\/count_tokens\//,
  /^agentgateway response\/responses\/reasoning\//,
  /converts usage with cached and thoughts tokens$/,
  /handles empty candidates$/,
]

// A case has no static type; a test that reads it wrongly fails.
type Case = Record<string, any>

const rowsOf = (name: string): Case[] => {
  const file = join(folder, `${name}.jsonl`)
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Case)
}

/** `id`, protocol and body of each request or response. */
function bodiesOf(kind: 'request' | 'response'): [id: string, protocol: string, body: unknown][] {
  return [
    ...rowsOf('lingua-translations').map((one): [string, string, unknown] =>
      kind === 'request'
        ? [`lingua ${one.case}`, one.source, one.sourceRequest]
        : [`lingua ${one.id}`, one.target, one.targetResponse],
    ),
    ...rowsOf('agentgateway-golden')
      .filter((one) => one.kind === kind)
      .map((one): [string, string, unknown] => [`agentgateway ${one.id}`, one.sourceProtocol, one.input]),
    ...rowsOf('rosetta-cases')
      .filter((one) => one.kind === kind)
      .map((one): [string, string, unknown] => [
        `rosetta ${one.test}`,
        kind === 'request' ? one.client : one.provider,
        one.input,
      ]),
  ]
}

const known = new Map<'request' | 'response', Recording[]>()

/** Each body once. */
export function cases(kind: 'request' | 'response'): readonly Recording[] {
  const read = known.get(kind) ?? readCases(kind)
  known.set(kind, read)
  return read
}

function readCases(kind: 'request' | 'response'): Recording[] {
  const found = new Map<string, Recording>()
  for (const [id, name, body] of bodiesOf(kind)) {
    // Some are errors, without the status of the provider.
    if (!isObject(body) || (body.error ?? undefined) !== undefined || WRONG.some((one) => one.test(id))) continue
    const protocol = PROTOCOLS[name]!
    const text = JSON.stringify(body)
    found.set(protocol + text, {
      id,
      protocol,
      status: 200,
      kinds: ['case'],
      headers: {},
      stream: kind === 'request' && body.stream === true,
      contentType: 'application/json',
      request: () => (kind === 'request' ? (JSON.parse(text) as Record<string, unknown>) : undefined),
      response: () => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>,
    })
  }
  return [...found.values()]
}
