import { addUsage, completionTokens, USAGE_BUCKETS, type Usage } from '../../../generation/usage.ts'
import type { GenerationRecord } from '../../ledger.ts'
import type { Refusal } from '../../reports.ts'
import { USAGE_COLUMNS } from '../../usage-columns.ts'
import { PeriodicWriter } from '../../periodic-writer.ts'
import { UnwrittenRefusals } from '../../unwritten-refusals.ts'
import { HOUR_MS } from '../../usage-pieces.ts'
import type { Connection } from '../connection.ts'
import { generationIdBytes } from '../generation-rows.ts'

export const hourOf = (at: number): number => Math.floor(at / HOUR_MS)

/** The bucket of a time to the first token, 9 % wide. */
const speedBucketOf = (ms: number): number => Math.round(8 * Math.log2(Math.max(1, ms)))

/** Ids of the names that a roll-up is kept for; 0 for no provider. */
type RolledNames = { account: number; key: number; model: number; provider: number; ending: number }

/** One row of usage_hours. */
type UsageHour = RolledNames & {
  hour: number
  requests: number
  usage: Usage
  bill: bigint
  listed: bigint
  flows: bigint
  latency: number
  duration: number
}

type SpeedHour = {
  hour: number
  provider: number
  model: number
  bucket: number
  requests: number
  tokens: number
  duration: number
}

/** Sums that are not written yet. Their rows are added to those that are stored. */
class Unwritten {
  readonly usage = new Map<string, UsageHour>()
  readonly speeds = new Map<string, SpeedHour>()
  readonly refused = new UnwrittenRefusals()

  get isEmpty(): boolean {
    return this.usage.size === 0 && this.refused.isEmpty
  }

  add(record: GenerationRecord, { account, key, model, provider, ending }: RolledNames): void {
    const hour = hourOf(record.createdAt)
    const id = `${hour} ${account} ${key} ${model} ${provider} ${ending}`
    const known = this.usage.get(id)
    const isSubscription = record.kind === 'subscription'
    const { bill, flows, latency, duration } = record
    if (known === undefined)
      this.usage.set(id, {
        hour,
        account,
        key,
        model,
        provider,
        ending,
        requests: 1,
        usage: { ...record.usage },
        bill: isSubscription ? 0n : bill,
        listed: isSubscription ? bill : 0n,
        flows,
        latency,
        duration,
      })
    else {
      known.requests++
      addUsage(known.usage, record.usage)
      if (isSubscription) known.listed += bill
      else known.bill += bill
      known.flows += flows
      known.latency += latency
      known.duration += duration
    }
    if (record.streamed && record.ending === 'completed') this.#addSpeed(hour, record, provider, model)
  }

  #addSpeed(hour: number, { latency, duration, usage }: GenerationRecord, provider: number, model: number): void {
    const bucket = speedBucketOf(latency)
    const id = `${hour} ${provider} ${model} ${bucket}`
    const known = this.speeds.get(id)
    const tokens = completionTokens(usage)
    if (known === undefined) this.speeds.set(id, { hour, provider, model, bucket, requests: 1, tokens, duration })
    else {
      known.requests++
      known.tokens += tokens
      known.duration += duration
    }
  }
}

/**
 * Sums by the hour of generations and refusals. A closing adds to a map; the map is written once a second, in the
 * transaction of the closings that come then.
 */
export class RollUps {
  readonly #connection: Connection
  readonly #name: (text: string) => number
  /** Closings of the transaction that is under way: they count once it is committed. */
  readonly #uncommitted: { record: GenerationRecord; names: RolledNames }[] = []
  #unwritten = new Unwritten()
  readonly #writer = new PeriodicWriter(() => this.#writeGathered())

  /** `name`: the id of a text in the table names, within a transaction. */
  constructor(connection: Connection, name: (text: string) => number) {
    this.#connection = connection
    this.#name = name
    connection.addHooks({
      afterCommit: () => this.#takeCommitted(),
      afterRollback: () => void (this.#uncommitted.length = 0),
    })
  }

  /** Counts a generation whose record the transaction under way inserts. */
  add(record: GenerationRecord, names: RolledNames): void {
    this.#uncommitted.push({ record, names })
  }

  /** Counts a refusal. `isKept`: its row is stored, too. */
  addRefusal(refusal: Refusal, isKept: boolean): void {
    this.#unwritten.refused.add(refusal, isKept)
    this.#writer.soon()
  }

  #takeCommitted(): void {
    if (this.#uncommitted.length === 0) return
    for (const { record, names } of this.#uncommitted) this.#unwritten.add(record, names)
    this.#uncommitted.length = 0
    this.#writer.soon()
  }

  /** Writes what was counted until now. What the store does not take is written later. */
  write(): Promise<void> {
    return this.#writer.now()
  }

  #writeGathered(): Promise<void> | undefined {
    if (this.#unwritten.isEmpty) return undefined
    const sums = this.#unwritten
    this.#unwritten = new Unwritten()
    return this.#connection
      .commitUnflushed(() => this.#writeRows(sums))
      .catch((error: unknown) => {
        this.#takeBack(sums)
        throw error
      })
  }

  #takeBack(sums: Unwritten): void {
    const { usage, speeds, refused } = this.#unwritten
    for (const [id, row] of sums.usage) addTo(usage, id, row)
    for (const [id, row] of sums.speeds) addTo(speeds, id, row)
    refused.takeBack(sums.refused)
  }

  close(): Promise<void> {
    return this.#writer.close()
  }

  #writeRows({ usage, speeds, refused }: Unwritten): void {
    for (const row of usage.values()) writeUsageHour(this.#connection, row)
    for (const row of speeds.values()) writeSpeedHour(this.#connection, row)
    for (const { hour, account, key, code, requests } of refused.hours)
      this.#connection.run(
        `INSERT INTO refusal_hours (hour, account, key, code, requests) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (hour, account, key, code) DO UPDATE SET requests = requests + excluded.requests`,
        hour,
        this.#idOf(account),
        this.#idOf(key),
        this.#name(code),
        requests,
      )
    for (const refusal of refused.rows) this.#writeRefusal(refusal)
  }

  #writeRefusal({ id, at, accountId, keyId, route, code, status, param, message, model, client }: Refusal): void {
    this.#connection.run(
      `INSERT INTO refusals (id, at, account, key, route, code, status, param, message, model, client)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      generationIdBytes(id),
      at,
      this.#idOf(accountId),
      this.#idOf(keyId),
      this.#name(route),
      this.#name(code),
      status,
      param,
      message,
      this.#idOf(model),
      this.#idOf(client),
    )
  }

  #idOf(text: string | null): number {
    return text === null || text === '' ? 0 : this.#name(text)
  }
}

/** Adds each sum of a row to the one that is there. */
function addTo<Row extends object>(rows: Map<string, Row>, id: string, row: Row): void {
  const known = rows.get(id) as Record<string, unknown> | undefined
  if (known === undefined) return void rows.set(id, row)
  const { usage } = row as Partial<UsageHour>
  if (usage !== undefined) addUsage((known as UsageHour).usage, usage)
  for (const name of SUMS) {
    const value = (row as Record<string, unknown>)[name]
    if (typeof value === 'number') known[name] = (known[name] as number) + value
    if (typeof value === 'bigint') known[name] = (known[name] as bigint) + value
  }
}

const SUMS = ['requests', 'tokens', 'bill', 'listed', 'flows', 'latency', 'duration']

/** The columns of usage_hours that are sums. */
export const USAGE_SUMS: readonly string[] = [
  'requests',
  ...USAGE_COLUMNS,
  'bill',
  'listed',
  'flows',
  'latency',
  'duration',
]
export const SPEED_SUMS: readonly string[] = ['requests', 'tokens', 'duration']

const upsert = (table: string, key: readonly string[], sums: readonly string[]): string => `
  INSERT INTO ${table} (${[...key, ...sums].join(', ')}) VALUES (${[...key, ...sums].map(() => '?').join(', ')})
  ON CONFLICT (${key.join(', ')})
  DO UPDATE SET ${sums.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`

export const USAGE_KEY: readonly string[] = ['hour', 'account', 'key', 'model', 'provider', 'ending']
export const SPEED_KEY: readonly string[] = ['hour', 'provider', 'model', 'bucket']
export const ADD_USAGE = upsert('usage_hours', USAGE_KEY, USAGE_SUMS)
export const ADD_SPEED = upsert('speed_hours', SPEED_KEY, SPEED_SUMS)

/** Adds to the stored row of its key, within a transaction. */
function writeUsageHour(connection: Connection, row: UsageHour): void {
  const { hour, account, key, model, provider, ending, requests, usage, bill, listed, flows, latency, duration } = row
  const counts = USAGE_BUCKETS.map((bucket) => usage[bucket])
  connection.run(
    ADD_USAGE,
    ...[hour, account, key, model, provider, ending, requests],
    ...counts,
    ...[bill, listed, flows, latency, duration],
  )
}

function writeSpeedHour(connection: Connection, row: SpeedHour): void {
  const { hour, provider, model, bucket, requests, tokens, duration } = row
  connection.run(ADD_SPEED, hour, provider, model, bucket, requests, tokens, duration)
}
