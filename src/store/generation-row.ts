import { USAGE_BUCKETS, type Usage } from '../generation/usage.ts'
import type { GenerationRecord, StoredPrice } from './ledger.ts'
import { usageIn } from './usage-columns.ts'

/** The price of a record as stores read it: nulls for none. */
export type ReadPrice = { priceVersion: string | null; priceModel: string; priceRates: string }

/** A record as stores read it. Amounts are texts, since integers of databases arrive in JavaScript as doubles. */
export type ReadRecord = Omit<GenerationRecord, 'usage' | 'price' | 'held' | 'bill' | 'flows'> &
  Usage &
  ReadPrice &
  Record<'held' | 'bill' | 'flows', string>

export function recordOf(row: ReadRecord): GenerationRecord {
  const { priceVersion, priceModel, priceRates, held, bill, flows, ...rest } = row
  for (const bucket of USAGE_BUCKETS) delete (rest as Partial<Usage>)[bucket]
  return {
    ...rest,
    usage: usageIn(row),
    held: BigInt(held),
    bill: BigInt(bill),
    flows: BigInt(flows),
    price: priceOf({ priceVersion, priceModel, priceRates }),
  }
}

export const priceOf = ({ priceVersion, priceModel, priceRates }: ReadPrice): StoredPrice | null =>
  priceVersion === null ? null : { version: priceVersion, model: priceModel, rates: priceRates }
