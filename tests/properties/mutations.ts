import fc from 'fast-check'

/** Random damage to JSON values: members are replaced, removed, added, duplicated or wrapped. */

/** The path of every member, as a list of keys. */
const pathsIn = (value: unknown, at: (string | number)[] = []): (string | number)[][] => [
  at,
  ...(typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([name, member]) =>
        pathsIn(member, [...at, Array.isArray(value) ? Number(name) : name]),
      )
    : []),
]

export const TEXTS = [
  '',
  ' ',
  '\0',
  '\n\ndata: {"x":1}\n\n',
  '\r\nx: y',
  '\u202eabc',
  '\u200d',
  '\ud800',
  '\u{1f600}',
  '\u001b[31m',
  '${7*7}',
  "' OR 1=1 --",
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '../../etc/passwd',
  'a'.repeat(5000),
  'data:image/png;base64,%%%',
  'http://[',
  'file:///etc/passwd',
  '∞',
  'NaN',
  '-0',
  '1e400',
  'user',
  'assistant',
  'tool',
  'system',
  'function',
  'text',
  'image',
  'refusal',
  'message',
  'item_reference',
  'auto',
  'json_schema',
  '$ref',
  '#/$defs/a',
]
const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -0,
    -1,
    1.5,
    1e9,
    2 ** 31,
    2 ** 53,
    -(2 ** 63),
    1e308,
    [],
    {},
    [[]],
    [null],
    [{}],
    { type: null },
    { type: 'x' },
    { __proto__: null, toString: 1 },
    Array.from({ length: 300 }, () => 'x'),
  ),
  fc.constantFrom<unknown>(...TEXTS),
  fc.jsonValue({ maxDepth: 4 }),
)

export type Change = { where: number; how: 'set' | 'drop' | 'add' | 'twice' | 'wrap'; name: string; value: unknown }
export const change: fc.Arbitrary<Change> = fc.record({
  where: fc.nat(),
  how: fc.constantFrom('set', 'set', 'set', 'drop', 'add', 'twice', 'wrap'),
  name: fc.constantFrom(
    ...TEXTS,
    'type',
    'content',
    'id',
    'name',
    'role',
    'cache_control',
    'signature',
    'parameters',
    'index',
    'delta',
    'text',
    'usage',
    'error',
  ),
  value: odd,
})

export function mutated(body: unknown, changes: readonly Change[]): unknown {
  let root: unknown = structuredClone(body)
  for (const { where, how, name, value } of changes) {
    const all = pathsIn(root)
    const path = all[1 + (where % Math.max(1, all.length - 1))]
    if (path === undefined) return root
    const last = path.at(-1)!
    const holder = path
      .slice(0, -1)
      .reduce<unknown>((inner, key) => (inner as Record<string | number, unknown>)[key], root) as Record<
      string | number,
      unknown
    >
    const put = (member: unknown): void => {
      Object.defineProperty(holder, last, { value: member, enumerable: true, configurable: true, writable: true })
    }
    if (how === 'set') put(value)
    else if (how === 'wrap') put([holder[last]])
    else if (how === 'drop') Array.isArray(holder) ? holder.splice(Number(last), 1) : delete holder[last]
    else if (how === 'add')
      Object.defineProperty(holder, Array.isArray(holder) ? holder.length : name, {
        value,
        enumerable: true,
        configurable: true,
        writable: true,
      })
    else if (Array.isArray(holder)) holder.splice(Number(last), 0, structuredClone(holder[Number(last)]))
    root = structuredClone(root)
  }
  return root
}
