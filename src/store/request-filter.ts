import { completionTokens, promptTokens } from '../generation/usage.ts'
import type { Choice, RequestFilter, RequestRow, Scope } from './reports.ts'

/**
 * True for a request that a list with this filter shows. The list of stored requests and the live view both ask this
 * function; what the store leaves out before is never a request that it accepts.
 */
export function matches(filter: RequestFilter, row: RequestRow): boolean {
  const { from, to, idPrefix, errorText } = filter
  return (
    isInScope(filter, row) &&
    (from === undefined || row.at >= from) &&
    (to === undefined || row.at < to) &&
    matchesChoices(filter.choices, row) &&
    matchesFlags(filter.flags, row) &&
    matchesLeast(filter, row) &&
    (idPrefix === undefined || row.id.startsWith(idPrefix)) &&
    (errorText === undefined || hasErrorText(row, errorText))
  )
}

/** True for what a caller may see. A request without a valid key belongs to no account. */
export const isInScope = ({ accountIds, keyIds }: Scope, { accountId, keyId }: ScopedRow): boolean =>
  accountIds === undefined ||
  (accountId !== null && accountIds.includes(accountId)) ||
  (keyId !== null && keyIds?.includes(keyId) === true)

type ScopedRow = Pick<RequestRow, 'accountId' | 'keyId'>

const isChosen = ({ only, not }: Choice, value: string | null): boolean =>
  (only === undefined || (value !== null && only.includes(value))) &&
  (not === undefined || value === null || !not.includes(value))

function matchesChoices(choices: RequestFilter['choices'], row: RequestRow): boolean {
  const { account, key, model, provider, api, outcome, code, client } = choices
  return (
    (account === undefined || isChosen(account, row.accountId)) &&
    (key === undefined || isChosen(key, row.keyId)) &&
    (model === undefined || isChosen(model, row.model)) &&
    (provider === undefined || isChosen(provider, row.provider)) &&
    (api === undefined || isChosen(api, row.api)) &&
    (outcome === undefined || isChosen(outcome, row.outcome)) &&
    (code === undefined || isChosen(code, row.error?.code ?? null)) &&
    (client === undefined || isChosen(client, row.client))
  )
}

function matchesFlags({ streamed, lossy, retried, estimated }: RequestFilter['flags'], row: RequestRow): boolean {
  return (
    (streamed === undefined || row.streamed === streamed) &&
    (lossy === undefined || row.losses > 0 === lossy) &&
    (retried === undefined || row.tries > 1 === retried) &&
    (estimated === undefined || row.estimated === estimated)
  )
}

function matchesLeast(filter: RequestFilter, row: RequestRow): boolean {
  const { minCost, minFirstTokenMs, minTotalMs, minTokens, seesListPrices } = filter
  return (
    (minCost === undefined || (row.bill >= minCost && (seesListPrices || row.kind !== 'subscription'))) &&
    (minFirstTokenMs === undefined || (row.firstTokenMs ?? -1) >= minFirstTokenMs) &&
    (minTotalMs === undefined || (row.totalMs ?? -1) >= minTotalMs) &&
    (minTokens === undefined || promptTokens(row.usage) + completionTokens(row.usage) >= minTokens)
  )
}

const hasErrorText = ({ error }: RequestRow, text: string): boolean =>
  error !== null && (error.code.includes(text) || (error.message ?? '').toLowerCase().includes(text))
