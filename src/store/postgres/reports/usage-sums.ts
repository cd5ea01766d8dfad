import { conditionsOf, REFUSED_CHOICES, SPEED_CHOICES, USAGE_CHOICES, where } from '../../choices.ts'
import { firstIdAt } from '../../generation-ids.ts'
import type { SpeedQuestion, SpeedRow, UsageGroup, UsageQuestion, UsageRow } from '../../reports.ts'
import { ID_SLACK_MS } from '../../request-page.ts'
import { OUTPUT_TOKENS, usageSelected } from '../../usage-columns.ts'
import { HOUR_MS, mayBeRefused, type Piece, piecesOf } from '../../usage-pieces.ts'
import { type SpeedSum, speedRowsOf, type UsedSum, UsageTable } from '../../usage-table.ts'
import type { Questions } from '../client.ts'
import { SPEED_BUCKET } from '../closing-statement.ts'
import { Values } from './conditions.ts'
import { textOf } from './request-rows.ts'

/** Rows that are added up before others have a turn. */
const TURN_ROWS = 2_000

const COLUMNS: Record<UsageGroup, string> = {
  model: 'model',
  key: 'key',
  account: 'account',
  provider: "coalesce(provider, '')",
  outcome: 'ending',
  code: "''",
}
const REFUSED_COLUMNS: Record<UsageGroup, string> = {
  model: "''",
  key: 'key',
  account: 'account',
  provider: "''",
  outcome: "'refused'",
  code: 'code',
}
/** `refused`: of refusals alone, which have nothing else. */
type Summed = { bucket: number; refused?: number } & Record<'a' | 'b', string> & UsedSum

const sums = (requests: string, bill: string): string => `
  coalesce(sum(${requests}) FILTER (WHERE ending IN ('failed', 'timed-out', 'shutdown', 'crashed')), 0) AS failed,
  sum(${requests}) AS requests, sum(${bill})::text AS bill, sum(flows)::text AS flows,
  ${usageSelected((column) => `sum(${column})`)}`

const groupOf = (groups: readonly UsageGroup[], columns: Record<UsageGroup, string>): string =>
  ['a', 'b'].map((name, at) => `${groups[at] === undefined ? "''" : columns[groups[at]]} AS ${name}`).join(', ')

/** Sums of usage: whole hours from the roll-ups, cut ones from the records. */
export async function usageRows(questions: Questions, question: UsageQuestion): Promise<UsageRow[]> {
  const pieces = [...piecesOf(question.bounds)]
  const statements = mayBeRefused(question) ? [used, usedOfCut, refused, refusedOfCut] : [used, usedOfCut]
  const table = new UsageTable(textOf)
  for (const statement of statements)
    for (const [index, row] of (await statement(questions, question, pieces)).entries()) {
      const { bucket, a, b, refused } = row
      if (refused === undefined) table.addUsed(bucket, [a, b], row)
      else table.addRefused(bucket, [a, b], refused)
      if (index % TURN_ROWS === TURN_ROWS - 1) await new Promise(setImmediate)
    }
  return table.rows.sort((a, b) => a.bucket - b.bucket)
}

const isOfWhole = ({ isWhole }: Piece): boolean => isWhole

/** Whole hours as rows of a statement: the bucket, the first hour and the end. */
const HOUR_PIECES = (place: string): string =>
  `jsonb_to_recordset(${place}::text::jsonb) AS p (bucket integer, first bigint, "end" bigint)`
const hoursOf = (pieces: readonly Piece[]): string =>
  JSON.stringify(
    pieces.filter(isOfWhole).map(({ bucket, from, to }) => ({ bucket, first: from / HOUR_MS, end: to / HOUR_MS })),
  )

/** Pieces of hours: their instants, and the ids that their rows may have. */
const CUT_PIECES = (place: string): string =>
  `jsonb_to_recordset(${place}::text::jsonb)
     AS p (bucket integer, first bigint, "end" bigint, "firstId" uuid, "endId" uuid)`
const cut = ({ bucket, from, to }: Omit<Piece, 'isWhole'>): object => ({
  bucket,
  first: Math.ceil(from),
  end: Math.ceil(to),
  firstId: firstIdAt(from - ID_SLACK_MS),
  endId: firstIdAt(to + ID_SLACK_MS),
})
const cutsOf = (pieces: readonly Piece[]): string => JSON.stringify(pieces.filter((piece) => !piece.isWhole).map(cut))

function used(questions: Questions, question: UsageQuestion, pieces: readonly Piece[]): Promise<Summed[]> {
  const values = new Values()
  const place = values.add(hoursOf(pieces))
  return questions.ask<Summed>(
    `SELECT p.bucket, u.* FROM ${HOUR_PIECES(place)}, LATERAL (
       SELECT ${groupOf(question.groups, COLUMNS)}, ${sums('requests', 'bill')} FROM usage_hours
       WHERE hour >= p.first AND hour < p."end"${where(conditionsOf(values.isIn, question, USAGE_CHOICES))}
       GROUP BY 1, 2) AS u`,
    values.list,
  )
}

function usedOfCut(questions: Questions, question: UsageQuestion, pieces: readonly Piece[]): Promise<Summed[]> {
  const values = new Values()
  const place = values.add(cutsOf(pieces))
  return questions.ask<Summed>(
    `SELECT p.bucket, u.* FROM ${CUT_PIECES(place)}, LATERAL (
       SELECT ${groupOf(question.groups, COLUMNS)},
         ${sums('1', "CASE WHEN kind = 'subscription' THEN 0 ELSE bill END")}
       FROM generations
       WHERE id >= p."firstId" AND id < p."endId" AND created_at >= p.first AND created_at < p."end"
         ${where(conditionsOf(values.isIn, question, USAGE_CHOICES))} GROUP BY 1, 2) AS u`,
    values.list,
  )
}

const refusedConditions = (values: Values, question: UsageQuestion): string =>
  where(conditionsOf(values.isIn, question, REFUSED_CHOICES))

function refused(questions: Questions, question: UsageQuestion, pieces: readonly Piece[]): Promise<Summed[]> {
  const values = new Values()
  const place = values.add(hoursOf(pieces))
  return questions.ask<Summed>(
    `SELECT p.bucket, r.* FROM ${HOUR_PIECES(place)}, LATERAL (
       SELECT ${groupOf(question.groups, REFUSED_COLUMNS)}, sum(requests) AS refused FROM refusal_hours
       WHERE hour >= p.first AND hour < p."end"${refusedConditions(values, question)} GROUP BY 1, 2) AS r`,
    values.list,
  )
}

/**
 * Refusals beyond the number that is stored are only counted: in an hour that a bound cuts they belong to the piece
 * with its end, so that pieces add up to the hour.
 */
async function refusedOfCut(
  questions: Questions,
  question: UsageQuestion,
  pieces: readonly Piece[],
): Promise<Summed[]> {
  const cuts = pieces.filter((piece) => !piece.isWhole)
  const ends = cuts.filter(({ to }) => to % HOUR_MS === 0).map((piece) => ({ ...piece, hour: hourOf(piece.from) }))
  const values = new Values()
  const group = groupOf(question.groups, REFUSED_COLUMNS)
  const stored = (sign: string, part: readonly Omit<Piece, 'isWhole'>[]): string =>
    `SELECT p.bucket, r.* FROM ${CUT_PIECES(values.add(JSON.stringify(part.map(cut))))}, LATERAL (
       SELECT ${group}, ${sign}count(*) AS refused FROM refusals
       WHERE id >= p."firstId" AND id < p."endId" AND at >= p.first AND at < p."end"
         ${refusedConditions(values, question)} GROUP BY 1, 2) AS r`
  const hours = ends.map(({ bucket, hour }) => ({ bucket, from: hour * HOUR_MS, to: (hour + 1) * HOUR_MS }))
  const parts = [
    stored(
      '',
      cuts.filter(({ to }) => to % HOUR_MS !== 0),
    ),
    `SELECT p.bucket, r.* FROM ${HOUR_PIECES(values.add(hoursOf(hours.map((one) => ({ ...one, isWhole: true })))))},
     LATERAL (SELECT ${group}, sum(requests) AS refused FROM refusal_hours
       WHERE hour >= p.first AND hour < p."end"${refusedConditions(values, question)} GROUP BY 1, 2) AS r`,
    stored(
      '-',
      ends.map(({ bucket, from, hour }) => ({ bucket, from: hour * HOUR_MS, to: from })),
    ),
  ]
  return questions.ask<Summed>(
    `SELECT bucket, a, b, sum(refused) AS refused FROM (${parts.join(' UNION ALL ')}) AS r GROUP BY 1, 2, 3`,
    values.list,
  )
}

const hourOf = (at: number): number => Math.floor(at / HOUR_MS)

/** Times to the first token and speeds, by provider and model, of each bucket. */
export async function speedRows(questions: Questions, { bounds, choices }: SpeedQuestion): Promise<SpeedRow[]> {
  const values = new Values()
  const pieces = [...piecesOf(bounds)]
  const conditions = where(conditionsOf(values.isIn, { choices }, SPEED_CHOICES))
  const rows = await questions.ask<SpeedSum<string>>(
    `SELECT p.bucket AS at, s.* FROM ${HOUR_PIECES(values.add(hoursOf(pieces)))}, LATERAL (
       SELECT provider, model, bucket, sum(requests) AS requests, sum(tokens) AS tokens, sum(duration) AS duration
       FROM speed_hours WHERE hour >= p.first AND hour < p."end"${conditions} GROUP BY 1, 2, 3) AS s
     UNION ALL SELECT p.bucket, s.* FROM ${CUT_PIECES(values.add(cutsOf(pieces)))}, LATERAL (
       SELECT coalesce(provider, '') AS provider, model, ${SPEED_BUCKET} AS bucket, count(*) AS requests,
         sum(${OUTPUT_TOKENS}) AS tokens, sum(duration) AS duration
       FROM generations
       WHERE id >= p."firstId" AND id < p."endId" AND created_at >= p.first AND created_at < p."end"
         AND streamed AND ending = 'completed'${conditions} GROUP BY 1, 2, 3) AS s`,
    values.list,
  )
  return speedRowsOf(rows, textOf)
}
