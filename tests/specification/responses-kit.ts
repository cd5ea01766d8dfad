import { no, ok, openAiRefusal, post, without, type Json, type Row, type Surface } from './kit.ts'

export const PNG = 'data:image/png;base64,iVBORw0KGgo='
export const OWN = ['sandbox/responses']
/** Providers of the other protocols require a message. */
export const ACCEPTS_NO_INPUT = ['sandbox/responses', 'sandbox/gemini']

/** The Responses API of a gateway. */
export const surfaceOf = (gateway: Surface['gateway']): Surface => ({
  gateway,
  native: 'sandbox/responses',
  refusal: openAiRefusal,
  send: (model, patch) => post(gateway, '/v1/responses', without({ model, input: 'Hello', ...patch })),
})

export const USER = { role: 'user', content: 'Hello' }
export const items = (...input: unknown[]): Json => ({ input: [USER, ...input] })
export const part = (value: unknown): Json => items({ role: 'user', content: [value] })

/** Rows for the required members of an item: absent, null and of a wrong type. */
export function required(item: Json, wrongs: Record<string, unknown>, before: unknown[] = []): Row[] {
  const at = `input[${1 + before.length}]`
  return Object.entries(wrongs).flatMap(([name, wrong]) => [
    no(
      `${String(item.type)}: ${name} is required`,
      `${at}.${name}`,
      items(...before, without({ ...item, [name]: undefined })),
    ),
    no(`${String(item.type)}: ${name} null is missing`, `${at}.${name}`, items(...before, { ...item, [name]: null })),
    no(`${String(item.type)}: ${name} of a wrong type`, `${at}.${name}`, items(...before, { ...item, [name]: wrong })),
  ])
}

/** Rows for optional members of an item: with good values, null and of a wrong type. */
export function optional(
  item: Json,
  members: Record<string, { good: unknown[]; bad: unknown }>,
  only?: readonly string[],
  before: unknown[] = [],
): Row[] {
  return Object.entries(members).flatMap(([name, { good, bad }]) => [
    ...[...good, null].map((value) =>
      ok(`${String(item.type)}: ${name} ${JSON.stringify(value)}`, items(...before, { ...item, [name]: value }), only),
    ),
    no(
      `${String(item.type)}: ${name} of a wrong type`,
      `input[${1 + before.length}].${name}`,
      items(...before, { ...item, [name]: bad }),
    ),
  ])
}

export const STATUS = { good: ['in_progress', 'completed', 'incomplete'], bad: 'done' }
export const ID = { good: ['x_1'], bad: 5 }
