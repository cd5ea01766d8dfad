import {
  type BookAccount,
  ClosedAlready,
  type Closing,
  type GenerationRecord,
  type StoredPrice,
  type Transfer,
} from '../ledger.ts'
import type { Queries } from './client.ts'
import { CLOSE } from './closing-statement.ts'
import type { Connection, Merger } from './connection.ts'
import { Fenced } from './errors.ts'
import { isGenerationId } from '../generation-ids.ts'
import { idOfUuid } from './generation-rows.ts'
import { InternedRows } from './interned.ts'
import { jsonOf } from './values.ts'

/** Writes the closings of generations, all that come together by one statement. */
export class Closings {
  readonly #connection: Connection
  readonly #prices: InternedRows
  readonly #bookAccounts: InternedRows
  /** Requests share the object of a price. */
  readonly #priceIds = new WeakMap<StoredPrice, number>()

  constructor(connection: Connection, bookAccounts: InternedRows) {
    this.#connection = connection
    this.#bookAccounts = bookAccounts
    this.#prices = new InternedRows(
      connection,
      'prices',
      ['version', 'model', 'rates'],
      '(t.version, t.model, md5(t.rates)) = (r.version, r.model, md5(r.rates))',
    )
  }

  readonly merge: Merger<Closing> = async (queries, closings, isRepeated) => {
    const errors: (Error | undefined)[] = closings.map(errorOf)
    const seen = new Set<string>()
    for (const [index, { record }] of closings.entries()) {
      if (errors[index] !== undefined) continue
      if (seen.has(record.id)) errors[index] = new ClosedAlready(record.id)
      seen.add(record.id)
    }
    const { isFenced, known } = await this.#write(queries, closings, errors)
    if (isFenced) throw new Fenced()
    if (known === null) return errors
    // An attempt whose acknowledgement was lost may have written those that are there.
    const there = known.split(' ').map(Number)
    const records = there.map((index) => closings[index]!.record)
    const own = isRepeated ? await writtenOf(queries, records) : new Set()
    for (const [at, { id }] of records.entries()) if (!own.has(id)) errors[there[at]!] = new ClosedAlready(id)
    return errors
  }

  async #write(
    queries: Queries,
    closings: readonly Closing[],
    errors: readonly (Error | undefined)[],
  ): Promise<{ isFenced: boolean; known: string | null }> {
    await this.#intern(closings)
    const [records, transfers, windows, spends]: object[][] = [[], [], [], []]
    for (const [n, closing] of closings.entries()) {
      if (errors[n] !== undefined) continue
      records!.push(this.#recordOf(closing, n))
      for (const { kind, debit, credit, amount } of closing.transfers)
        transfers!.push({ n, kind, debit: this.#idOf(debit), credit: this.#idOf(credit), amount: `${amount}` })
      for (const { accountId, window, startedAt, endsAt, used } of closing.windows)
        windows!.push({ n, account: accountId, name: window, start: startedAt, end: endsAt, used: `${used}` })
      if (closing.spend !== undefined) {
        const { keyId, since, spent } = closing.spend
        spends!.push({ n, key: keyId, since, spent: `${spent}` })
      }
    }
    const { process } = this.#connection
    const rows = [records, transfers, windows, spends].map((list) => (list!.length === 0 ? null : jsonOf(list)))
    return (await queries.one(CLOSE, process ?? null, process ?? 0, ...rows))!
  }

  #recordOf({ record, wasOpen }: Closing, n: number): object {
    const { usage, price, held, bill, flows, ...rest } = record
    return {
      n,
      wasOpen,
      ...rest,
      ...usage,
      held: `${held}`,
      bill: `${bill}`,
      flows: `${flows}`,
      price: price === null ? null : this.#priceIds.get(price),
    }
  }

  /** Makes known the ids of all prices and accounts of the book that the closings name. */
  async #intern(closings: readonly Closing[]): Promise<void> {
    const prices = new Map<string, readonly string[]>()
    const accounts = new Map<string, readonly string[]>()
    const unknown: StoredPrice[] = []
    this.#bookAccounts.trim()
    for (const { record, transfers } of closings) {
      const { price } = record
      if (price !== null && !this.#priceIds.has(price)) {
        unknown.push(price)
        prices.set(textOf(price), [price.version, price.model, price.rates])
      }
      for (const { debit, credit } of transfers)
        for (const { kind, owner } of [debit, credit])
          if (this.#bookAccounts.id(`${kind}\n${owner}`) === undefined) accounts.set(`${kind}\n${owner}`, [kind, owner])
    }
    if (accounts.size > 0) await this.#bookAccounts.add(accounts)
    if (unknown.length === 0) return
    this.#prices.trim()
    await this.#prices.add(prices)
    for (const price of unknown) this.#priceIds.set(price, this.#prices.id(textOf(price))!)
  }

  #idOf({ kind, owner }: BookAccount): number {
    return this.#bookAccounts.id(`${kind}\n${owner}`)!
  }
}

/** The ids of records that are in the store as they are, and not as another one, such as the charge that one voids. */
async function writtenOf(queries: Queries, records: readonly GenerationRecord[]): Promise<Set<string>> {
  const rows = await queries.all<{ id: string }>(
    `SELECT id FROM jsonb_to_recordset($1::text::jsonb) AS r (id uuid, ending text, bill bigint)
       JOIN generations USING (id, ending, bill)`,
    jsonOf(records.map(({ id, ending, bill }) => ({ id, ending, bill: `${bill}` }))),
  )
  return new Set(rows.map(({ id }) => idOfUuid(id)))
}

const textOf = ({ version, model, rates }: StoredPrice): string => `${version}\n${model}\n${rates}`

/** The reason for which a closing cannot be written, so that it fails alone. */
function errorOf({ record, transfers }: Closing): Error | undefined {
  if (!isGenerationId(record.id))
    return new Error(`the generation id ${JSON.stringify(record.id)} must be 32 hex digits in lower case`)
  for (const amount of [record.held, record.bill, record.flows])
    if (amount < 0n || !fitsInt64(amount)) return new RangeError(`the amount ${amount} must have 63 bits`)
  return transferError(transfers)
}

/** The reason for which transfers of one reference cannot be written. */
export function transferError(transfers: readonly Transfer[]): Error | undefined {
  for (const [index, { kind, debit, credit, amount }] of transfers.entries()) {
    if (amount <= 0n || !fitsInt64(amount)) return new RangeError(`the amount ${amount} must be positive, of 63 bits`)
    if (debit.kind === credit.kind && debit.owner === credit.owner)
      return new Error(`a transfer must not lead from the ${debit.kind} account to itself`)
    for (let other = 0; other < index; other++)
      if (transfers[other]!.kind === kind) return new Error(`there must not be two transfers of kind ${kind}`)
  }
  return undefined
}

export const fitsInt64 = (amount: bigint): boolean => BigInt.asIntN(64, amount) === amount
