import type { Named, RequestRow } from '../../api/answers.ts'
import { headUsd } from '../../parts/money.ts'
import { OUTCOME_WORDS } from '../../parts/outcomes.ts'
import { count, duration } from '../../parts/when.ts'
import type { Attempt } from './detail.ts'

/** A step that the reader can take; `to`: a path within the console. */
type Advice = { text: string; to?: string; label?: string }

/** A row of the list, or a request with its details. */
type Row = Omit<RequestRow, 'bodies'>

const named = (row: Row): string => row.model ?? 'the model'
const plural = (number: number, word: string): string => `${count(number)} ${word}${number === 1 ? '' : 's'}`
const times = (number: number): string => (number === 1 ? 'once' : number === 2 ? 'twice' : `${number} times`)

/** The end of the request and its cost, in words. */
export function outcomeSentence(row: Row, attempts: readonly Attempt[] = []): string {
  return `${endSentence(row, attempts)} ${costSentence(row)}`.trim()
}

/** The end of the request, in words. */
export function endSentence(row: Row, attempts: readonly Attempt[] = []): string {
  const failed = attempts.filter(({ error }) => error !== null)
  const by = row.provider === null ? '' : ` by ${row.provider}`
  switch (row.outcome) {
    case 'open':
      return row.first_token_ms === null
        ? `Waiting for the first token of ${named(row)}.`
        : `${named(row)} is answering; its first token came after ${duration(row.first_token_ms)}.`
    case 'completed':
      return (
        `Answered${by} in ${duration(row.total_ms)}` +
        (failed.length > 0 ? `, after ${triesText(failed)}` : '') +
        (row.losses > 0 ? `; translation changed ${plural(row.losses, 'thing')} of it.` : '.')
      )
    case 'client-left':
      return (
        `The client left after ${duration(row.total_ms)}` +
        (row.first_token_ms === null && row.streamed ? ', before the first token.' : '.')
      )
    case 'timed-out':
      if (row.first_token_ms !== null) return brokenSentence(row, failed)
      return failed.length > 0 ? `${triesText(failed)}.` : `${row.provider ?? 'The provider'} did not answer in time.`
    case 'shutdown':
      return `Sluice was stopped after ${duration(row.total_ms)} of this request.`
    case 'crashed':
      return 'Sluice ended unexpectedly during this request; it was settled at the next start.'
    case 'exhausted':
      return `Ended after ${duration(row.total_ms)}, where the balance was used up; what came until then was sent.`
    case 'refused':
      return row.error === null ? 'Refused before a provider was asked.' : ended(row.error.message ?? row.error.code)
    case 'failed':
      return failedSentence(row, failed)
  }
}

function failedSentence(row: Row, failed: readonly Attempt[]): string {
  if (row.first_token_ms !== null) return brokenSentence(row, failed)
  if (failed.length === 0 && row.error !== null) return ended(row.error.message ?? row.error.code)
  if (failed.length === 0) return `${row.provider ?? row.model ?? 'The model'} sent no answer that could be read.`
  if (row.api === 'predictions' && failed.at(-1)?.status === null) return failedPrediction(row, failed)
  const isOne = new Set(failed.map(({ provider }) => provider)).size === 1
  return `${triesText(failed)}.${isOne ? ` No other endpoint serves ${named(row)}.` : ''}`
}

/** A prediction that its provider created, and that failed there: no other endpoint is asked. */
function failedPrediction(row: Row, failed: readonly Attempt[]): string {
  const before = failed.slice(0, -1)
  const end = `prediction failed at ${row.provider ?? named(row)}.`
  return before.length === 0 ? `The ${end}` : `${triesText(before)}; the ${end}`
}

/** The failure of a stream that had begun: no other endpoint can go on with it. */
function brokenSentence(row: Row, failed: readonly Attempt[]): string {
  const before = failed.slice(0, -1)
  return (
    `The answer of ${row.provider ?? named(row)} broke off after ${duration(row.total_ms)}` +
    (before.length > 0 ? `, after ${triesText(before)}.` : '.')
  )
}

/** `acme answered 529 twice, other did not answer`. */
function triesText(failed: readonly Attempt[]): string {
  const groups = new Map<string, number>()
  for (const { provider, status, error } of failed) {
    const what =
      status === null || status === 0
        ? `${provider} ${NO_STATUS[error?.code ?? ''] ?? 'failed'}`
        : `${provider} answered ${status}`
    groups.set(what, (groups.get(what) ?? 0) + 1)
  }
  return [...groups].map(([what, number]) => (number === 1 ? what : `${what} ${times(number)}`)).join(', ')
}

const NO_STATUS: Record<string, string> = {
  upstream_timeout: 'did not answer in time',
  upstream_error: 'could not be reached or broke off',
}

function costSentence({ outcome, cost_usd, flows, tokens }: Row): string {
  if (outcome === 'open') return ''
  if (flows !== null && flows > 0) return `It used ${plural(flows, 'flow')} of the subscription.`
  if (cost_usd === null || /^0(?:\.0*)?$/.test(cost_usd)) {
    const used = tokens.input + tokens.output + tokens.cache_read + tokens.cache_write + tokens.reasoning
    return used > 0 && outcome === 'completed' ? 'It was free.' : 'Nothing was charged.'
  }
  return `It cost ${headUsd(cost_usd)} USD.`
}

/** A message of an error as a sentence of its own. It may begin with a field or an id, whose case is theirs. */
const ended = (text: string): string => `${text.trim()}${/[.!?]$/.test(text.trim()) ? '' : '.'}`

type Advise = (row: Row) => Advice[]
/** Where a key and an account are changed. */
export const keyPath = (key: Named | null, change = ''): string =>
  key === null ? '/keys' : `/keys/${encodeURIComponent(key.id)}${change}`
export const accountPath = (account: Named | null): string =>
  account === null ? '/accounts' : `/accounts/${encodeURIComponent(account.id)}`
const LIMIT = '?change=limit'

const raiseLimit: Advise = (row) => [{ text: "Raise the key's limit", to: keyPath(row.key, LIMIT) }]
const addCredit: Advise = (row) => [{ text: 'Add credit to the account', to: accountPath(row.account) }]
/** Credit does not help against the limit of a key, and the other way round. */
const fund: Advise = (row) => {
  if (row.error === null) return [...raiseLimit(row), ...addCredit(row)]
  return row.error.message?.includes("this key's limit") === true ? raiseLimit(row) : addCredit(row)
}
/** A model of a provider without a key is named with what switches that on. */
const findModel: Advise = ({ error }) => [
  ...(error?.message?.includes('for its operator: ') === true ? [{ text: 'See the providers', to: '/providers' }] : []),
  { text: 'See the models', to: '/models' },
]
const seeProviders: Advise = ({ provider }) => [
  { text: provider === null ? 'See the providers' : `See ${provider}`, to: '/providers' },
]

/** The remedy, by the code of the error. */
const ADVICE: Record<string, Advise> = {
  insufficient_credit: fund,
  quota_exceeded: (row) => [{ text: "Change the account's plan", to: accountPath(row.account) }],
  rate_limit_exceeded: (row) => [{ text: "Raise the key's requests per minute", to: keyPath(row.key, LIMIT) }],
  permission_denied: (row) => [{ text: 'See which models the key may use', to: keyPath(row.key) }],
  account_suspended: (row) => [{ text: "See the account's status", to: accountPath(row.account) }],
  invalid_api_key: () => [{ text: 'Create a key', to: '/keys?create=1' }],
  model_not_found: findModel,
  upstream_rate_limited: seeProviders,
  upstream_error: seeProviders,
  upstream_timeout: seeProviders,
  overloaded: seeProviders,
  unsupported_parameter: () => [
    { text: 'Send it without x-sluice-strict, or ask another model: this one would lose the named field' },
  ],
  context_length_exceeded: () => [
    { text: 'Shorten the conversation, or ask a model with a longer context', to: '/models' },
  ],
  invalid_request: () => [{ text: 'Change the field that the message names' }],
}

/** The next step; empty where all went well. */
export function adviceOf(row: Row): Advice[] {
  if (row.outcome === 'exhausted') return fund(row)
  if (row.error === null) return row.outcome === 'timed-out' || row.outcome === 'failed' ? seeProviders(row) : []
  return ADVICE[row.error.code]?.(row) ?? []
}

type Tone = 'plain' | 'open' | 'failed' | 'refused' | 'lossy' | 'dim'

/** `filter`: the field and value by which requests of this kind are found. */
type OutcomeWord = { text: string; tone: Tone; filter: { field: string; value: string } }

/** The words of a row about its end: nothing for what is plainly completed. */
export function outcomeWords(row: Row): OutcomeWord[] {
  const words: OutcomeWord[] = []
  const { outcome, tries, losses, error, estimated } = row
  const add = (text: string, tone: Tone, field: string, value = 'true') =>
    words.push({ text, tone, filter: { field, value } })
  if (outcome !== 'completed') add(OUTCOME_WORDS[outcome], TONES[outcome], 'outcome', outcome)
  if ((outcome === 'refused' || outcome === 'failed') && error !== null)
    add(error.code, TONES[outcome], 'code', error.code)
  if (tries > 1) add(`${tries} attempts`, 'dim', 'retried')
  if (losses > 0) add(`${losses} lost`, 'lossy', 'lossy')
  if (estimated) add('estimated', 'dim', 'estimated')
  return words
}

const TONES: Record<Row['outcome'], Tone> = {
  open: 'open',
  completed: 'plain',
  failed: 'failed',
  'timed-out': 'failed',
  crashed: 'failed',
  shutdown: 'refused',
  exhausted: 'refused',
  refused: 'refused',
  'client-left': 'dim',
}
