import type { ConversationName } from '../../src/generation/request.ts'

/** The pieces of a body in the order in which a provider caches them: tools, instructions, conversation. */

type Json = Record<string, any>

/** Clients move their cache breakpoints, and at most four of them are sent. */
const CACHE_FIELDS: ReadonlySet<string> = new Set(['cache_control', 'prompt_cache_breakpoint'])
const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (name, inner) => (CACHE_FIELDS.has(name) ? undefined : inner))

/** Adjacent messages of one role are one message, which grows, so these are compared part by part. */
const partsOf = (role: string, parts: unknown[]): string[] => parts.map((part) => `${role} ${jsonOf(part)}`)

const PIECES: Record<ConversationName, (body: Json) => string[]> = {
  'chat.completions': ({ messages }) => messages.map(jsonOf),
  responses: ({ instructions, input }) => [jsonOf(instructions ?? null), ...input.map(jsonOf)],
  messages: ({ system, messages }) => [
    jsonOf(system ?? null),
    ...messages.flatMap(({ role, content }: Json) => partsOf(role, content)),
  ],
  generateContent: ({ systemInstruction, contents }) => [
    jsonOf(systemInstruction ?? null),
    ...contents.flatMap(({ role, parts }: Json) => partsOf(role, parts)),
  ],
}

export const piecesOf = (protocol: ConversationName, body: Json): string[] => [
  jsonOf(body.tools ?? null),
  ...PIECES[protocol](body),
]

/** The first difference between a list and the beginning of a longer one; undefined if there is none. */
export function breakOf(before: readonly string[], after: readonly string[]): string | undefined {
  const index = before.findIndex((piece, index) => piece !== after[index])
  return index < 0
    ? undefined
    : `piece ${index} of ${before.length} was ${before[index]!.slice(0, 600)}\nand is ${after[index]?.slice(0, 600)}`
}
