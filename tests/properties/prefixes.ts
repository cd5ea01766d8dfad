import type { ConversationName } from '../../src/generation/request.ts'

/** The pieces of a body in the order in which a provider caches them: tools, instructions, turns. */

type Json = Record<string, any>

/** Cache breakpoints are not compared: the client moves them, and at most four are sent. */
const MARKS: ReadonlySet<string> = new Set(['cache_control', 'prompt_cache_breakpoint'])
const textOf = (value: unknown): string => JSON.stringify(value, (name, inner) => (MARKS.has(name) ? undefined : inner))

/** Adjacent messages of one role are one message, to which parts are appended: they are compared part by part. */
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

/** The first difference of the shorter list from the beginning of the longer one; undefined if there is none. */
export function breakOf(before: readonly string[], after: readonly string[]): string | undefined {
  const place = before.findIndex((piece, index) => piece !== after[index])
  return place < 0
    ? undefined
    : `piece ${place} of ${before.length} was ${before[place]!.slice(0, 600)}\nand is ${after[place]?.slice(0, 600)}`
}
