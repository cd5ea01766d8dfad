import { firstIdAt, instantOf } from './generation-ids.ts'
import type { RequestFilter, RequestPage, RequestRow } from './reports.ts'

/** An id begins with the time of its request; records of earlier versions are this much later at most. */
export const ID_SLACK_MS = 60_000

/** A search from the newest id to the oldest: all ids from `searchedTo` on were searched; undefined where all were. */
export type Found = { rows: RequestRow[]; searchedTo: string | undefined }

export const NOTHING: Found = { rows: [], searchedTo: undefined }

const [FIRST_ID, LAST_ID] = ['0'.repeat(32), 'f'.repeat(32)]

export const lessOf = (a: string, b: string): string => (a < b ? a : b)
export const moreOf = (a: string, b: string): string => (a < b ? b : a)

/** The page that several searches give together. */
export function mergedPage(found: readonly Found[], limit: number): RequestPage {
  const searchedTo = found.map((one) => one.searchedTo ?? '').reduce(moreOf, '')
  const all = found.flatMap(({ rows }) => rows).filter(({ id }) => id >= searchedTo)
  const rows = all.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit)
  const last = rows.length === limit ? rows.at(-1)!.id : undefined
  const next = last ?? (searchedTo === '' ? null : searchedTo)
  return { rows, next, scannedTo: next === null ? null : instantOf(next) }
}

/** The ids that a filter allows: [first, end). */
export function idRange(
  { from, to, idPrefix }: RequestFilter,
  before: string | undefined,
): [first: string, end: string] {
  let low = from === undefined ? FIRST_ID : firstIdAt(from - ID_SLACK_MS)
  let high = before ?? LAST_ID
  if (to !== undefined) high = lessOf(high, firstIdAt(to + ID_SLACK_MS))
  if (idPrefix !== undefined) {
    low = moreOf(low, idPrefix.padEnd(32, '0'))
    // An id that ends in many f is not excluded by this end.
    const last = idPrefix.padEnd(32, 'f')
    high = lessOf(high, last === LAST_ID ? high : following(last))
  }
  return [low, high]
}

/** The id after this one. */
const following = (id: string): string => (BigInt(`0x${id}`) + 1n).toString(16).padStart(32, '0')

export const mayBeGeneration = ({ choices: { outcome } }: RequestFilter): boolean =>
  outcome?.only === undefined || outcome.only.some((one) => one !== 'refused' && one !== 'open')

/** A refusal has neither provider nor answer. */
export function mayBeRefusal({ choices, flags, ...filter }: RequestFilter): boolean {
  const { outcome, provider } = choices
  return (
    (outcome?.only === undefined || outcome.only.includes('refused')) &&
    outcome?.not?.includes('refused') !== true &&
    provider?.only === undefined &&
    !Object.values(flags).includes(true) &&
    filter.minFirstTokenMs === undefined &&
    filter.minTotalMs === undefined &&
    (filter.minCost ?? 0n) === 0n &&
    (filter.minTokens ?? 0) === 0
  )
}
