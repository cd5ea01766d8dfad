import type { Usage } from '../../../generation/usage.ts'
import type { RequestRow } from '../../reports.ts'
import { rowOfEnded, rowOfRefusal } from '../../request-row.ts'
import { usageIn, usageSelected } from '../../usage-columns.ts'
import { idOfUuid } from '../generation-rows.ts'

/** The columns of a generation that its line needs. Amounts as text: PostgreSQL's integers arrive as doubles. */
export const LINE_COLUMNS = `
  g.id, g.account, g.key, g.kind, g.api, g.model, g.provider, g.client, g.finish, g.ending, g.created_at AS at,
  g.latency, g.duration, g.streamed, g.retries, g.attempts, g.estimated,
  CASE WHEN g.translation IS NULL THEN 0 ELSE json_array_length(g.translation::json) END AS losses,
  g.bill::text AS bill, g.flows::text AS flows,
  ${usageSelected((column) => `g.${column}`)}`

export type LineRow = Usage & {
  id: string
  account: string
  key: string
  kind: string
  api: string
  model: string
  provider: string | null
  client: string | null
  finish: string
  ending: string
  at: number
  latency: number
  duration: number
  streamed: boolean
  retries: number
  attempts: string | null
  estimated: boolean
  losses: number
  bill: string
  flows: string
}

export const REFUSAL_COLUMNS =
  'r.id, r.account, r.key, r.route, r.code, r.status, r.param, r.message, r.model, r.client, r.at'

export type RefusalRow = {
  id: string
  account: string
  key: string
  route: string
  code: string
  status: number
  param: string | null
  message: string
  model: string
  client: string
  at: number
}

export const lineOf = (row: LineRow): RequestRow =>
  rowOfEnded({
    ...row,
    id: idOfUuid(row.id),
    accountId: row.account,
    keyId: row.key,
    usage: usageIn(row),
    bill: BigInt(row.bill),
    flows: BigInt(row.flows),
  })

/** Null for the empty text, which means none. */
export const textOf = (text: string): string | null => (text === '' ? null : text)

export const refusalLineOf = ({ account, key, ...row }: RefusalRow): RequestRow =>
  rowOfRefusal({
    ...row,
    id: idOfUuid(row.id),
    accountId: textOf(account),
    keyId: textOf(key),
    model: textOf(row.model),
    client: textOf(row.client),
  })
