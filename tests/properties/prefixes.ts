import type { ConversationName } from '../../src/generation/request.ts'

/**
 * What a provider caches of a body, piece by piece and in its order: the tools, the instructions, then what was said.
 */

type Json = Record<string, any>

/** Marks are the client's, who moves them; at most four of them travel. */
const MARKS: ReadonlySet<string> = new Set(['cache_control', 'prompt_cache_breakpoint'])
const textOf = (value: unknown): string => JSON.stringify(value, (name, inner) => (MARKS.has(name) ? undefined : inner))

/** Neighbouring messages of one side are one message there, which grows at its end: these are compared part by part. */
const parted = (role: string, parts: unknown[]): string[] => parts.map((part) => `${role} ${textOf(part)}`)

const PIECES: Record<ConversationName, (body: Json) => string[]> = {
  'chat.completions': ({ messages }) => messages.map(textOf),
  responses: ({ instructions, input }) => [textOf(instructions ?? null), ...input.map(textOf)],
  messages: ({ system, messages }) => [
    textOf(system ?? null),
    ...messages.flatMap(({ role, content }: Json) => parted(role, content)),
  ],
  generateContent: ({ systemInstruction, contents }) => [
    textOf(systemInstruction ?? null),
    ...contents.flatMap(({ role, parts }: Json) => parted(role, parts)),
  ],
}

export const piecesOf = (protocol: ConversationName, body: Json): string[] => [
  textOf(body.tools ?? null),
  ...PIECES[protocol](body),
]

/** Where the shorter list is no beginning of the longer one; undefined: it is one. */
export function breakOf(before: readonly string[], after: readonly string[]): string | undefined {
  const place = before.findIndex((piece, index) => piece !== after[index])
  return place < 0
    ? undefined
    : `piece ${place} of ${before.length} was ${before[place]!.slice(0, 600)}\nand is ${after[place]?.slice(0, 600)}`
}
