/**
 * Editing JSON as text, so that a body can be passed on with a few values changed: key order, whitespace, the spelling
 * of numbers and big integers stay as the client or the provider wrote them. All texts must be valid JSON.
 */

import { elements, MemberWalker, members, skipSpace } from './scan.ts'

/** Member names and array indexes, from the outermost value down. */
export type JsonPath = readonly (string | number)[]

/**
 * A change of a JSON text; `value` is a JSON text.
 * - `replace`: the value at the path, which must exist.
 * - `insert`: at an index, before that element (at the array's length: appended); at a name, a member, which is
 *   replaced if it exists.
 * - `remove`: the element or member at the path, together with its comma. A missing member is ignored.
 */
export type Edit = { path: JsonPath; op: 'replace' | 'insert'; value: string } | { path: JsonPath; op: 'remove' }

/** The edits of one value of the text, and of the values inside it. */
type EditNode = { replaced?: string; removed?: boolean; inserted: string[]; inside: Map<string | number, EditNode> }

/** A range of the text, [start, end), and the text that replaces it. Cuts are in order and do not overlap. */
type Cut = [start: number, end: number, value: string]

/**
 * A JSON text after these edits, in one pass over the text; every other byte is unchanged. All paths refer to the
 * original text, so that the order of the edits does not matter, except that values inserted at the same index keep
 * theirs. Throws an Error for a path that does not exist, and for another edit at or inside a value that is replaced
 * or removed.
 */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  const cuts: Cut[] = []
  cutValue(text, skipSpace(text, 0), text.length, editTree(edits), cuts)
  let out = ''
  let from = 0
  for (const [start, end, value] of cuts) {
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
}

function editTree(edits: readonly Edit[]): EditNode {
  const root = newNode()
  for (const edit of edits) {
    let node = root
    for (const step of edit.path) {
      const next = node.inside.get(step) ?? newNode()
      node.inside.set(step, next)
      node = next
    }
    if (edit.op === 'replace') node.replaced = edit.value
    else if (node === root) throw new Error(`cannot ${edit.op} the whole text`)
    else if (edit.op === 'remove') node.removed = true
    else node.inserted.push(edit.value)
  }
  return root
}

const newNode = (): EditNode => ({ inserted: [], inside: new Map() })

function cutValue(text: string, start: number, end: number, node: EditNode, cuts: Cut[]): void {
  const kinds = [node.replaced !== undefined, node.removed === true, node.inside.size > 0]
  if (kinds.filter(Boolean).length > 1)
    throw new Error('a value that an edit replaces or removes has another edit at or inside it')
  if (node.replaced !== undefined) cuts.push([start, end, node.replaced])
  if (node.inside.size === 0) return
  const spans = elements(text, start)
  if (spans === undefined) cutObject(text, start, node.inside, cuts)
  else cutArray(text, start, spans, node.inside, cuts)
}

/** An element or member. `before`: texts to insert before it. */
type Item = { start: number; valueAt: number; end: number; node: EditNode | undefined; before: readonly string[] }

function cutArray(text: string, at: number, spans: [number, number][], edits: EditNode['inside'], cuts: Cut[]): void {
  for (const [step, { inserted }] of edits) {
    const exists = typeof step === 'number' && (step < spans.length || (step === spans.length && inserted.length > 0))
    if (!exists) throw new Error(`there is no element ${step}`)
  }
  const items = spans.map(([start, end], index): Item => {
    const node = edits.get(index)
    return { start, valueAt: start, end, node, before: node?.inserted ?? [] }
  })
  cutItems(text, at, items, edits.get(spans.length)?.inserted ?? [], cuts)
}

function cutObject(text: string, at: number, edits: EditNode['inside'], cuts: Cut[]): void {
  const present = members(text, at)
  const lastOf = new Map(present.map(({ key }, index) => [key, index]))
  const added: string[] = []
  for (const [key, node] of edits) {
    if (typeof key === 'string' && lastOf.has(key)) node.replaced ??= node.inserted.at(-1)
    else if (node.inserted.length > 0) added.push(`${JSON.stringify(key)}:${node.inserted.at(-1)}`)
    else if (node.removed !== true) throw new Error(`there is no member ${key}`)
  }
  const items = present.map(({ key, nameAt, start, end }, index): Item => {
    const edit = edits.get(key)
    // The last member of a duplicate name counts, as for JSON.parse; removing removes all.
    const node = edit?.removed === true || lastOf.get(key) === index ? edit : undefined
    return { start: nameAt, valueAt: start, end, node, before: index === 0 ? added : [] }
  })
  cutItems(text, at, items, present.length === 0 ? added : [], cuts)
}

/** Cuts for the items of an array or object that starts at `at`. `appended`: texts to add at its end. */
function cutItems(text: string, at: number, items: readonly Item[], appended: readonly string[], cuts: Cut[]): void {
  // An item is removed with the comma behind it, but the last ones with the comma before them.
  const kept = items.findLastIndex(({ node }) => node?.removed !== true) + 1
  for (const [index, { start, valueAt, end, node, before }] of items.slice(0, kept).entries()) {
    const inserted = before.map((value) => `${value},`).join('')
    if (node?.removed === true) cuts.push([start, items[index + 1]!.start, inserted])
    else if (inserted !== '') cuts.push([start, start, inserted])
    if (node !== undefined) cutValue(text, valueAt, end, node, cuts)
  }
  const tail = [...items.slice(kept).flatMap(({ before }) => before), ...appended]
  const from = kept > 0 ? items[kept - 1]!.end : (items[0]?.start ?? skipSpace(text, at) + 1)
  const to = kept < items.length ? items.at(-1)!.end : from
  if (tail.length > 0 || to > from) cuts.push([from, to, (kept > 0 && tail.length > 0 ? ',' : '') + tail.join(',')])
}

/**
 * The text of an object with members set or, where `undefined`, removed. Values are JSON texts. Used on every frame of
 * a stream: the text after the last change is not scanned.
 */
export function splice(text: string, changes: Record<string, string | undefined>, at = 0): string {
  const names = Object.keys(changes)
  for (const name of names) if (changes[name] === undefined) return spliceWithRemovals(text, changes, at)
  const found: string[] = []
  const walk = new MemberWalker(text, at)
  let out = ''
  let from = 0
  while (found.length < names.length && walk.next()) {
    const value = changes[walk.key]
    if (value === undefined || !names.includes(walk.key)) continue
    if (!found.includes(walk.key)) found.push(walk.key)
    out += text.slice(from, walk.start) + value
    from = walk.end
  }
  out += text.slice(from)
  if (found.length === names.length) return out
  const brace = text.indexOf('{', at) + 1
  const added = names
    .filter((name) => !found.includes(name))
    .map((name) => `${JSON.stringify(name)}:${changes[name]}`)
    .join(',')
  return out.slice(0, brace) + added + (walk.key === '' && walk.nameAt === 0 ? '' : ',') + out.slice(brace)
}

/** `splice` with removed members: one comma is removed with each. */
function spliceWithRemovals(text: string, changes: Record<string, string | undefined>, at: number): string {
  const present = members(text, at)
  const brace = text.indexOf('{', at) + 1
  const pieces: string[] = []
  for (const name of Object.keys(changes)) {
    if (changes[name] !== undefined && !present.some(({ key }) => key === name))
      pieces.push(`${JSON.stringify(name)}:${changes[name]}`)
  }
  let from = brace
  for (const [index, { key, start, end }] of present.entries()) {
    const value = Object.hasOwn(changes, key) ? changes[key] : text.slice(start, end)
    const next = index === present.length - 1 ? end : text.indexOf(',', end)
    if (value !== undefined) pieces.push(text.slice(from, start) + value + text.slice(end, next))
    from = next + 1
  }
  return text.slice(0, brace) + pieces.join(',') + text.slice(present.at(-1)?.end ?? brace)
}

/** A JSON text, or a function of the text that it replaces. */
type Replacement = string | ((text: string) => string)

/** Replacements by path step. */
type Tree = { value?: Replacement; below: Map<string | number, Tree> }

/**
 * The text with the values at these paths replaced; every other byte is unchanged. Of a duplicate name the last member
 * counts, as for JSON.parse. No path may lead through another. Throws an Error for a path that does not exist.
 */
export function replaceAt(text: string, changes: readonly { path: JsonPath; value: Replacement }[]): string {
  const root: Tree = { below: new Map() }
  for (const { path, value } of changes) {
    let tree = root
    for (const step of path) {
      const next = tree.below.get(step) ?? { below: new Map() }
      tree.below.set(step, next)
      tree = next
    }
    tree.value = value
  }
  const spans: [start: number, end: number, value: string][] = []
  locate(text, 0, text.length, root, spans)
  let out = ''
  let from = 0
  for (const [start, end, value] of spans.sort(([a], [b]) => a - b)) {
    out += text.slice(from, start) + value
    from = end
  }
  return out + text.slice(from)
}

function locate(text: string, start: number, end: number, tree: Tree, spans: [number, number, string][]): void {
  if (tree.value !== undefined)
    return void spans.push([
      start,
      end,
      typeof tree.value === 'string' ? tree.value : tree.value(text.slice(start, end)),
    ])
  const array = elements(text, start)
  const found = new Map<string | number, { start: number; end: number }>()
  if (array !== undefined) for (const [index, [from, to]] of array.entries()) found.set(index, { start: from, end: to })
  else for (const member of members(text, start)) found.set(member.key, member)
  for (const [step, below] of tree.below) {
    const value = found.get(step)
    if (value === undefined) throw new Error(`there is nothing at ${step}`)
    locate(text, value.start, value.end, below, spans)
  }
}

/**
 * The text of an array with JSON texts inserted before the elements at their indexes (the array's length: at the end);
 * every other byte is unchanged.
 */
export function insertAt(text: string, added: readonly { before: number; value: string }[]): string {
  const spans = elements(text)
  if (spans === undefined) throw new Error('insertAt requires an array')
  const [first, last] = [spans[0], spans.at(-1)]
  if (first === undefined || last === undefined) return `[${added.map(({ value }) => value).join(',')}]`
  const put = (index: number): { value: string; then: string }[] =>
    added.filter(({ before }) => before === index).map(({ value }) => ({ value, then: ',' }))
  const all = spans
    .flatMap(([start, end], index) => {
      const next = spans[index + 1]
      return [
        ...put(index),
        { value: text.slice(start, end), then: next === undefined ? ',' : text.slice(end, next[0]) },
      ]
    })
    .concat(put(spans.length))
  return (
    text.slice(0, first[0]) +
    all.map(({ value, then }, index) => (index === all.length - 1 ? value : value + then)).join('') +
    text.slice(last[1])
  )
}
