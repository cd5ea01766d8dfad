import { Fields } from '../fields.ts'

/**
 * Required members, with their types, of the input items that only this protocol has: computer, shell, search. Other
 * members are not checked.
 */

type Rule = (fields: Fields, name: string) => void
type Shape = Record<string, Rule>

const text: Rule = (fields, name) => void fields.require(name, fields.string(name), 'a string')
const integer: Rule = (fields, name) => void fields.require(name, fields.integer(name), 'a whole number')
const number: Rule = (fields, name) => void fields.require(name, fields.number(name), 'a number')
const texts: Rule = (fields, name) => void fields.require(name, fields.strings(name), 'an array of strings')
const oneOf =
  (...values: string[]): Rule =>
  (fields, name) =>
    void fields.require(name, fields.oneOf(name, values), values.join(' or '))
const maybe =
  (rule: Rule): Rule =>
  (fields, name) => {
    if (fields.has(name)) rule(fields, name)
  }
const record =
  (shape: Shape): Rule =>
  (fields, name) =>
    check(fields.require(name, fields.object(name), 'an object'), shape)
const list =
  (shape: Shape): Rule =>
  (fields, name) => {
    for (const one of fields.require(name, fields.objects(name), 'an array of objects')) check(one, shape)
  }
const textMap: Rule = (fields, name) => {
  const map = fields.require(name, fields.object(name), 'an object of strings')
  for (const key of Object.keys(map.value)) map.string(key)
}

/** An object with a `type`; types that are not listed are newer than this table and are accepted. */
const variant = (shapes: Record<string, Shape>): Rule => {
  const byType = new Map(Object.entries(shapes))
  return (fields, name) => {
    const value = fields.require(name, fields.object(name), 'an object with a type')
    const type = value.require('type', value.string('type'), 'the kind of object')
    check(value, byType.get(type) ?? {})
  }
}

function check(fields: Fields, shape: Shape): void {
  for (const [name, rule] of Object.entries(shape)) rule(fields, name)
}

const status = oneOf('in_progress', 'completed', 'incomplete')
// OpenAI documents `middle`; its models send `wheel`, `back` and `forward` too.
const button = oneOf('left', 'right', 'middle', 'wheel', 'back', 'forward')
const point: Shape = { x: number, y: number }

const computerAction = variant({
  click: { ...point, button },
  double_click: point,
  move: point,
  screenshot: {},
  wait: {},
  drag: { path: list(point) },
  scroll: { ...point, scroll_x: number, scroll_y: number },
  type: { text },
  keypress: { keys: texts },
})

const KINDS: Record<string, Shape> = {
  web_search_call: {
    id: text,
    status: text,
    action: variant({
      search: { query: maybe(text), queries: maybe(texts), sources: maybe(list({ type: text })) },
      open_page: { url: maybe(text) },
      find: { url: text, pattern: text },
      find_in_page: { url: text, pattern: text },
    }),
  },
  computer_call: {
    call_id: text,
    action: computerAction,
    id: maybe(text),
    status: maybe(status),
    pending_safety_checks: maybe(list({})),
  },
  computer_call_output: {
    call_id: text,
    output: record({ type: oneOf('computer_screenshot'), file_id: maybe(text), image_url: maybe(text) }),
    acknowledged_safety_checks: maybe(list({})),
    id: maybe(text),
    status: maybe(status),
  },
  local_shell_call: {
    id: text,
    call_id: text,
    status,
    action: record({
      type: oneOf('exec'),
      command: texts,
      env: textMap,
      timeout_ms: maybe(integer),
      user: maybe(text),
      working_directory: maybe(text),
    }),
  },
  local_shell_call_output: { id: text, output: text, status: maybe(status) },
  shell_call: {
    call_id: text,
    action: record({ commands: texts, max_output_length: maybe(integer), timeout_ms: maybe(integer) }),
    id: maybe(text),
    status: maybe(status),
  },
  shell_call_output: {
    call_id: text,
    output: list({ stdout: text, stderr: text, outcome: variant({ timeout: {}, exit: { exit_code: integer } }) }),
    id: maybe(text),
    max_output_length: maybe(integer),
  },
}

const SHAPES = new Map(Object.entries(KINDS))

/** The newer computer tool sends a list of actions instead of one. */
const BATCHED: Shape = { call_id: text, id: maybe(text), status: maybe(status), actions: list({ type: text }) }

/** Throws the 400 of an item of a wrong shape; kinds that are not in the table are not restricted. */
export function checkItem(item: Fields, type: string): void {
  const shape = type === 'computer_call' && item.has('actions') ? BATCHED : SHAPES.get(type)
  if (shape !== undefined) check(item, shape)
}
