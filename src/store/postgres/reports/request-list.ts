import { conditionsOf, USAGE_CHOICES, where } from '../../choices.ts'
import { firstIdAt, instantOf } from '../../generation-ids.ts'
import type { RequestFilter, RequestPage } from '../../reports.ts'
import {
  ID_SLACK_MS,
  idRange,
  lessOf,
  mayBeGeneration,
  mayBeRefusal,
  mergedPage,
  moreOf,
  NOTHING,
} from '../../request-page.ts'
import { HOUR_MS } from '../../usage-pieces.ts'
import type { Questions } from '../client.ts'
import { Values } from './conditions.ts'
import { GENERATIONS, type Range, REFUSALS, RequestSearch } from './request-search.ts'

/** A page that is not full after this time comes back short. */
const SEARCH_MS = 150
/** Hours that are looked up together: few at first. */
const FIRST_HOURS = 24
const HOURS = 1_000

/** A page of requests, newest first: generations and refusals. */
export async function requestPage(
  questions: Questions,
  filter: RequestFilter,
  before: string | undefined,
  limit: number,
): Promise<RequestPage> {
  const [low, high] = idRange(filter, before)
  const terms = { filter, limit, giveUpAt: performance.now() + SEARCH_MS }
  const generations = mayBeGeneration(filter)
    ? await new RequestSearch(questions, GENERATIONS, terms).rowsIn(rangesOf(questions, filter, low, high))
    : NOTHING
  const refusals = mayBeRefusal(filter)
    ? await new RequestSearch(questions, REFUSALS, terms).rowsIn([[low, high]])
    : NOTHING
  return mergedPage([generations, refusals], limit)
}

/** The ranges of ids to search, the newest first: hours of which a roll-up says that they may have such rows. */
async function* rangesOf(
  questions: Questions,
  filter: RequestFilter,
  low: string,
  high: string,
): AsyncGenerator<Range> {
  const values = new Values()
  const before = values.add(0)
  const conditions = conditionsOf(values.isIn, filter, USAGE_CHOICES)
  if (conditions.length === 0) return yield [low, high]
  const first = hourOf(instantOf(low) - ID_SLACK_MS)
  let beforeHour = hourOf(instantOf(high) + ID_SLACK_MS) + 1
  let end = high
  for (let most = FIRST_HOURS; end > low; most = HOURS) {
    values.list[0] = beforeHour
    const hours = await questions.ask<{ hour: number }>(
      `SELECT DISTINCT hour FROM usage_hours WHERE hour < ${before}::bigint AND hour >= ${first}${where(conditions)}
       ORDER BY hour DESC LIMIT ${most}`,
      values.list,
    )
    for (const [oldest, newest] of runsOf(hours.map(({ hour }) => hour))) {
      const from = moreOf(low, firstIdAt(oldest * HOUR_MS - ID_SLACK_MS))
      const to = lessOf(end, firstIdAt((newest + 1) * HOUR_MS + ID_SLACK_MS))
      if (from < to) yield [from, to]
      end = lessOf(end, from)
    }
    if (hours.length < most) return
    beforeHour = hours.at(-1)!.hour
  }
}

const hourOf = (at: number): number => Math.floor(at / HOUR_MS)

/** Hours without gaps between them, as ranges. The newest come first. */
function runsOf(hours: readonly number[]): [oldest: number, newest: number][] {
  const runs: [number, number][] = []
  for (const hour of hours) {
    const last = runs.at(-1)
    if (last !== undefined && last[0] === hour + 1) last[0] = hour
    else runs.push([hour, hour])
  }
  return runs
}
