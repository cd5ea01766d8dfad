import type { Database } from 'bun:sqlite'
import type { Queries } from '../postgres/client.ts'
import { jsonOf } from '../postgres/values.ts'
import type { Moved } from './tables.ts'

/** Rows, and the size of their texts and bytes, that one statement inserts. */
const BATCH = { rows: 1_000, bytes: 4 * 2 ** 20 }

const INTEGERS = ['smallint', 'integer', 'bigint']

/** The number of rows, and the sum of each column of integers. */
export type Sums = { rows: bigint; columns: Map<string, bigint> }

type Value = string | bigint | number | null | Uint8Array
type Row = Record<string, Value>

/** Copies rows in bounded memory, those that are there already excepted, and gives the sums of all. */
export async function copy(
  database: Database,
  target: Queries,
  { into, from, sql = `SELECT * FROM ${from}` }: Moved,
  onRows: (rows: number, isEnd: boolean) => void,
): Promise<Sums> {
  const types = await typesOf(target, into)
  const sums: Sums = { rows: 0n, columns: new Map() }
  let [batch, bytes]: [Record<string, string | null>[], number] = [[], 0]
  let insert: string | undefined
  for (const row of database.query(sql).iterate() as IterableIterator<Row>) {
    insert ??= insertOf(into, Object.keys(row), types)
    const texts: Record<string, string | null> = {}
    for (const [name, value] of Object.entries(row)) {
      if (typeof value === 'bigint' && isSummed(types.get(name)))
        sums.columns.set(name, (sums.columns.get(name) ?? 0n) + value)
      texts[name] = textOf(value, types.get(name), `${into}.${name}`)
      bytes += texts[name]?.length ?? 0
    }
    batch.push(texts)
    sums.rows += 1n
    if (batch.length < BATCH.rows && bytes < BATCH.bytes) continue
    await target.run(insert, jsonOf(batch))
    ;[batch, bytes] = [[], 0]
    onRows(Number(sums.rows), false)
  }
  if (insert !== undefined && batch.length > 0) await target.run(insert, jsonOf(batch))
  onRows(Number(sums.rows), true)
  return sums
}

const BYTES = ['bytea', 'uuid']

function textOf(value: Value, type: string | undefined, column: string): string | null {
  if (value === null) return null
  // The number of a name, for example, is none for PostgreSQL.
  const isOther =
    value instanceof Uint8Array ? !BYTES.includes(type ?? '') : typeof value === 'bigint' && type === 'text'
  if (isOther) throw new Error(`this version of Sluice cannot move ${column} to PostgreSQL, where it is a ${type}`)
  if (!(value instanceof Uint8Array)) return String(value)
  return `\\x${value.toHex()}`
}

const isSummed = (type: string | undefined): boolean => INTEGERS.includes(type ?? '') || type === 'boolean'

/** The type of each column; without one, this version of Sluice has no such table. */
async function typesOf(target: Queries, table: string): Promise<Map<string, string>> {
  const columns = await target.all<{ name: string; type: string }>(
    `SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
     WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`,
    table,
  )
  return new Map(columns.map(({ name, type }) => [name, type]))
}

function insertOf(into: string, columns: string[], types: ReadonlyMap<string, string>): string {
  const missing = columns.find((name) => !types.has(name))
  if (missing !== undefined) throw new Error(`this version of Sluice cannot move ${into}.${missing} to PostgreSQL`)
  const list = columns.map((name) => `"${name}"`).join(', ')
  const values = columns.map((name) => valueOf(name, types.get(name)!)).join(', ')
  return `INSERT INTO ${into} (${list}) OVERRIDING SYSTEM VALUE
    SELECT ${values} FROM json_to_recordset($1::text::json) AS r (${columns.map((name) => `"${name}" text`).join(', ')})
    ON CONFLICT DO NOTHING`
}

/** Ids of 16 bytes are written as bytes are. */
const valueOf = (name: string, type: string): string =>
  type === 'uuid' ? `encode(r."${name}"::bytea, 'hex')::uuid` : `r."${name}"::${type}`

/** The first difference between the rows that were read and those of the table; undefined where there is none. */
export async function differenceOf(
  target: Queries,
  moved: Moved,
  { rows, columns }: Sums,
): Promise<string | undefined> {
  const types = await typesOf(target, moved.into)
  const summed = [...columns.keys()]
  const sumOf = (name: string): string =>
    types.get(name) === 'boolean' ? `count(*) FILTER (WHERE "${name}")` : `coalesce(sum("${name}"), 0)`
  const sumAs = (name: string): string => `${sumOf(name)}::text AS "${name}"`
  const row = await target.one<Record<string, string>>(
    `SELECT ${['count(*)::text AS "rows of it"', ...summed.map(sumAs)].join(', ')}
     FROM ${moved.into} ${moved.except === undefined ? '' : `WHERE NOT (${moved.except})`}`,
  )
  const { 'rows of it': found, ...sums } = row!
  if (BigInt(found!) !== rows) return `${moved.into} must have ${rows} rows, but has ${found}`
  const wrong = summed.find((name) => BigInt(sums[name]!) !== columns.get(name))
  return wrong === undefined
    ? undefined
    : `the sum of ${moved.into}.${wrong} must be ${columns.get(wrong)}, but is ${sums[wrong]}`
}
