import type { Usage } from '../generation/usage.ts'
import type { StoredFile } from './files.ts'
import type { BookAccount, StoredPrice, Transfer } from './ledger.ts'
import type { PredictionChange } from './predictions.ts'

/** A request that never became a generation. `route`: its name, or method and path without one. */
export type Refusal = {
  id: string
  at: number
  /** Null for a request without a valid key. */
  accountId: string | null
  keyId: string | null
  route: string
  code: string
  status: number
  param: string | null
  message: string
  model: string | null
  client: string | null
}

/** The requests that a caller may see: all, or those of these accounts and of these keys. */
export type Scope = { accountIds?: readonly string[] | undefined; keyIds?: readonly string[] | undefined }

/** `only`: one of these; `not`: none of these. */
export type Choice = { only?: readonly string[] | undefined; not?: readonly string[] | undefined }

/** The columns of a request that a `Choice` is about, as filters name them. */
export const CHOICES = ['account', 'key', 'model', 'provider', 'api', 'outcome', 'code', 'client'] as const
export type ChoiceName = (typeof CHOICES)[number]

export const FLAGS = ['streamed', 'lossy', 'retried', 'estimated'] as const
type FlagName = (typeof FLAGS)[number]

/** Requests as a list shows them. All conditions hold together. Times: Unix milliseconds, `to` exclusive. */
export type RequestFilter = Scope & {
  from?: number | undefined
  to?: number | undefined
  choices: Partial<Record<ChoiceName, Choice>>
  flags: Partial<Record<FlagName, boolean>>
  /** Nano-USD; `seesListPrices`: it is also about the list price of what subscriptions used. */
  minCost?: bigint | undefined
  seesListPrices: boolean
  minFirstTokenMs?: number | undefined
  minTotalMs?: number | undefined
  minTokens?: number | undefined
  /** The hexadecimal digits with which an id begins. */
  idPrefix?: string | undefined
  /** A part of an error's code or message, in lower case. */
  errorText?: string | undefined
}

/** A line of the list of requests: a generation, open or recorded, or a refusal. Amounts in nano-USD, micro-flows. */
export type RequestRow = {
  id: string
  at: number
  accountId: string | null
  keyId: string | null
  kind: string | null
  /** The protocol; for a refusal its route. */
  api: string
  model: string | null
  provider: string | null
  client: string | null
  /** An outcome of the ledger, `open` or `refused`. */
  outcome: string
  finish: string | null
  error: { code: string; message: string | null } | null
  streamed: boolean
  /** Only for streams that began. */
  firstTokenMs: number | null
  totalMs: number | null
  tries: number
  losses: number
  estimated: boolean
  usage: Usage
  bill: bigint
  flows: bigint
}

/** `rows`: the newest first. `next`: the id before which to go on; null at the end. */
export type RequestPage = { rows: RequestRow[]; next: string | null; scannedTo: number | null }

/** The facts of one request beyond its line. */
export type RequestDetail = {
  row: RequestRow
  attempts: string | null
  translation: string | null
  price: StoredPrice | null
  discount: number
  held: bigint
  transfers: Transfer[]
  status: number | null
  param: string | null
}

export const USAGE_GROUPS = ['model', 'key', 'account', 'provider', 'outcome', 'code'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

/** `bounds`: the beginnings of the buckets and the end of the last, ascending. */
export type UsageQuestion = Scope & {
  bounds: readonly number[]
  groups: readonly UsageGroup[]
  choices: Partial<Record<ChoiceName, Choice>>
}

export type UsageSums = {
  requests: number
  failed: number
  refused: number
  bill: bigint
  flows: bigint
  usage: Usage
}

/** The sums of one bucket and one group. `bucket`: its position in `bounds`. */
export type UsageRow = UsageSums & { bucket: number; group: readonly (string | null)[] }

export type SpeedQuestion = {
  /** Instants, `to` exclusive. */
  bounds: readonly number[]
  choices: Partial<Record<'model' | 'provider', Choice>>
}

/** Completed streams by the time to their first token: `counts` are [bucket, requests]; see `speedOf`. */
export type SpeedRow = {
  bucket: number
  provider: string | null
  model: string
  counts: readonly (readonly [bucket: number, requests: number])[]
  tokens: number
  durationMs: number
}

/** A roll-up that differs from its records. `lacks`: requests that it should have beside its own. */
export type WrongRollUp = { row: string; hour: number; lacks: number }

/** A balance of the book. `id`: its position in the list. */
export type BookRow = BookAccount & { id: number; balance: bigint }

/** A transfer with the instant by which lists order it. */
export type TransferRow = {
  reference: string
  kind: string
  at: number
  note: string | null
  amount: bigint
  from: BookAccount
  to: BookAccount
}

/** `accountIds`: only of the credit and bonus of these; without it of all. */
export type TransferQuestion = {
  accountIds?: readonly string[] | undefined
  kinds?: readonly string[] | undefined
  from?: number | undefined
  to?: number | undefined
}

/** `id`: the transfers of generations before this one come next. `operation`: so many operations were listed. */
export type TransferPosition = { id: string; operations: number }
export type TransferPage = { rows: TransferRow[]; next: TransferPosition | null }

/**
 * `ownAccountIds`: those of the keys. `openIds`: of all that is open in the scope, which no record names yet. `isOpen`:
 * only such, or none. `now`: responses that have expired by then are left out.
 */
export type JobQuestion = Scope & {
  ownAccountIds: readonly string[]
  openIds: readonly string[]
  isOpen?: boolean | undefined
  kind?: JobRow['kind'] | undefined
  now: number
}

/**
 * Work that goes on after its request: a prediction, or a response in the background, which has neither times nor
 * model of its own. `state`: of a prediction that has not ended or has failed, where it is short. `webhook`: the
 * attempts of a call that is not delivered yet. `line`: once it is recorded.
 */
export type JobRow = Pick<PredictionChange, 'id' | 'accountId' | 'createdAt' | 'startedAt' | 'completedAt'> & {
  kind: 'prediction' | 'response'
  model: string | null
  status: PredictionChange['status']
  state: string | null
  webhook: { attempts: number; nextAt: number } | null
  line: RequestRow | null
}

/** `next`: the id before which to go on; null at the end. */
export type JobPage = { rows: JobRow[]; next: string | null }

/** The longest state of a job that a list reads. */
export const JOB_STATE_BYTES = 16 * 1024

export type FileRow = Pick<
  StoredFile,
  'id' | 'accountId' | 'filename' | 'purpose' | 'mediaType' | 'bytes' | 'createdAt' | 'expiresAt'
>
export type FilePosition = Pick<FileRow, 'createdAt' | 'id'>

/** Calls of one provider in a range, by the minute of their request. The newest errors first. */
/** `wrongRequests`: those that the provider refused because of what the client sent; `failed` has no such. */
export type ProviderHealth = {
  minutes: {
    at: number
    requests: number
    failed: number
    wrongRequests: number
    rateLimited: number
    firstTokenMs: number | null
  }[]
  codes: { code: string; requests: number }[]
  errors: { at: number; model: string | null; code: string; message: string | null }[]
}

/** Questions about many records at once. None is answered on the event loop. */
export interface ReportStore {
  /** Counts generations that are in no roll-up: of a process that was killed, and of earlier versions. */
  begin(): Promise<void>
  addRefusal(refusal: Refusal, isKept: boolean): void
  /** Removes refusals before an instant, and the oldest beyond a number. */
  purgeRefusals(before: number, most: number): Promise<void>
  /** `before`: the id that a page before gave as `next`. A page may be short where much had to be searched. */
  requests(filter: RequestFilter, before: string | undefined, limit: number): Promise<RequestPage>
  request(id: string, scope: Scope): Promise<RequestDetail | undefined>
  usage(question: UsageQuestion): Promise<UsageRow[]>
  speed(question: SpeedQuestion): Promise<SpeedRow[]>
  balances(accountIds: readonly string[] | undefined, after: number, limit: number): Promise<BookRow[]>
  transfers(question: TransferQuestion, before: TransferPosition | undefined, limit: number): Promise<TransferPage>
  /** Newest first, before an id. A page may be short where many of others had to be looked at. */
  jobs(question: JobQuestion, before: string | undefined, limit: number): Promise<JobPage>
  /** Newest first, before one. */
  files(
    accountIds: readonly string[] | undefined,
    now: number,
    before: FilePosition | undefined,
    limit: number,
  ): Promise<FileRow[]>
  health(provider: string, from: number, to: number): Promise<ProviderHealth>
  /** The instant from which the records of all generations are counted. */
  countedFrom(): Promise<number>
  /** Compares all roll-ups with their records, at once: for a process or thread that does nothing else. */
  wrongRollUps(): Promise<WrongRollUp[]>
}
