import type { Usage } from '../../../generation/usage.ts'
import type { RequestRow } from '../../reports.ts'
import { rowOfEnded, rowOfRefusal } from '../../request-row.ts'
import { usageIn, usageSelected } from '../../usage-columns.ts'
import type { NameCache } from './name-cache.ts'

/** The columns of a generation that its line needs. Amounts as text: SQLite's integers arrive as doubles. */
export const LINE_COLUMNS = `
  lower(hex(g.id)) AS hexId, g.account, g.key, g.kind, g.api, g.model, g.provider, g.client, g.finish, g.ending,
  g.created_at AS at, g.latency, g.duration, g.streamed, g.retries, g.attempts, g.estimated,
  CASE WHEN g.translation IS NULL THEN 0 ELSE json_array_length(g.translation) END AS losses,
  CAST(g.bill AS TEXT) AS bill, CAST(g.flows AS TEXT) AS flows,
  ${usageSelected((column) => `g.${column}`)}`

export type LineRow = Usage & {
  hexId: string
  account: number
  key: number
  kind: number
  api: number
  model: number
  provider: number | null
  client: number | null
  finish: number
  ending: number
  at: number
  latency: number
  duration: number
  streamed: number
  retries: number
  attempts: string | null
  estimated: number
  losses: number
  bill: string
  flows: string
}

export const REFUSAL_COLUMNS = `
  lower(hex(r.id)) AS hexId, r.account, r.key, r.route, r.code, r.status, r.param, r.message, r.model, r.client, r.at`

export type RefusalRow = {
  hexId: string
  account: number
  key: number
  route: number
  code: number
  status: number
  param: string | null
  message: string
  model: number
  client: number
  at: number
}

export const lineOf = (names: NameCache, row: LineRow): RequestRow =>
  rowOfEnded({
    ...row,
    id: row.hexId,
    accountId: names.text(row.account),
    keyId: names.text(row.key),
    kind: names.text(row.kind),
    api: names.text(row.api)!,
    model: names.text(row.model),
    provider: names.text(row.provider),
    client: names.text(row.client),
    ending: names.text(row.ending)!,
    finish: names.text(row.finish),
    streamed: row.streamed === 1,
    estimated: row.estimated === 1,
    usage: usageIn(row),
    bill: BigInt(row.bill),
    flows: BigInt(row.flows),
  })

export const refusalLineOf = (names: NameCache, row: RefusalRow): RequestRow =>
  rowOfRefusal({
    id: row.hexId,
    at: row.at,
    accountId: names.text(row.account),
    keyId: names.text(row.key),
    route: names.text(row.route)!,
    code: names.text(row.code)!,
    status: row.status,
    param: row.param,
    message: row.message,
    model: names.text(row.model),
    client: names.text(row.client),
  })
