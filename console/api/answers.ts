/** Answers of the management API. Amounts are decimal strings of USD, times ISO 8601 in UTC. */

import type { Outcome as LedgerOutcome } from '../../src/ledger/outcomes.ts'

export type Role = 'owner' | 'admin' | 'viewer' | 'member'
/** `scope`: `installation`, or the id of an account. */
/** `requests`: of a member who sees the requests of all keys of the account. */
export type RoleOn = { scope: string; role: Role; requests?: 'all' }
export type Named = { id: string; name: string | null }
export type Page<T> = { data: T[]; next: string | null; scanned_to?: string | null }

export type User = {
  id: string
  name: string
  email: string | null
  roles: RoleOn[]
  created_at: string
  joined_at: string | null
  last_seen_at: string | null
  has_password: boolean
}

export type Session = {
  user: { id: string; name: string }
  roles: RoleOn[]
  expires_at: string
  version: string
  capture: { most: CaptureMode; on: CaptureOn[] }
}

export type CaptureMode = 'off' | 'errors' | 'all'
/** The captured bodies of a key, an account or the installation; `until` null: for good. */
export type Capture = { mode: CaptureMode; until: string | null }
export type CaptureOn = Capture & { kind: 'key' | 'account' | 'installation'; id: string; name: string | null }

/** One body of a request. `bytes`: on the wire. The text from the character `from` on came at `at_ms`. */
export type Body = {
  name: 'client_request' | 'provider_request' | 'provider_answer' | 'client_answer'
  url: string | null
  status: number | null
  headers: { name: string; value: string }[]
  bytes: number
  cut: number
  text: string
  times: { from: number; at_ms: number }[]
}
export type Bodies = { request: string; expires_at: string; parts: Body[] }

export type LinkPreview = { kind: 'first' | 'invite' | 'return'; user: { name: string } | null }
export type NewLink = { url: string; expires_at: string }

export type UserSession = {
  id: string
  created_at: string
  last_seen_at: string
  expires_at: string
  address: string | null
  client: string | null
  current: boolean
}

/** `posted`: false where this reference was posted before. */
export type Posted = { posted: boolean; reference: string; balance_usd: string }

export type Window = { name: string; used: number; limit: number; resets_at: string | null }

/** `balance_usd`: credit and bonus. `discount`: percent. */
export type Account = {
  id: string
  name: string
  status: string
  discount: number
  member_requests: 'own' | 'all'
  created_at: string
  plan: { tier: string; renews: boolean; next_tier: string | null; started_at: string; ends_at: string }
  balance_usd: string
  credit_usd: string
  bonus_usd: string
  held_usd: string
  capture: Capture | null
  windows: Window[]
}

export type KeyKind = 'pay-as-you-go' | 'subscription' | 'management'
export type LimitPeriod = 'day' | 'week' | 'month'

/** `spent_usd`: in the current period of its limit. `source`: `sluice.yaml` for one that only the file changes. */
export type Key = {
  id: string
  kind: KeyKind
  name: string | null
  account: { id: string; name: string }
  prefix: string
  last4: string
  models: string[] | null
  limit_usd: string | null
  limit_period: LimitPeriod | null
  spent_usd: string | null
  period_ends_at: string | null
  requests_per_minute: number | null
  created_at: string | null
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
  role: Role | null
  scope: string | null
  created_by: string | null
  capture: Capture | null
  source: string
}

/** `text`: answered once, when the key is made. */
export type NewKey = Key & { text: string }

/** An outcome of the ledger, or one that has none. */
export type Outcome = LedgerOutcome | 'open' | 'refused'

export type Tokens = { input: number; cache_read: number; cache_write: number; output: number; reasoning: number }

export type RequestRow = {
  id: string
  public_id: string | null
  at: string
  /** Null without a valid key. */
  account: Named | null
  key: Named | null
  api: string
  model: string | null
  provider: string | null
  client: string | null
  outcome: Outcome
  finish_reason: string | null
  error: { code: string; message: string | null } | null
  streamed: boolean
  first_token_ms: number | null
  total_ms: number | null
  tries: number
  losses: number
  estimated: boolean
  tokens: Tokens
  cost_usd: string | null
  flows: number | null
  bodies: boolean
}

export type Measures = {
  requests: number
  failed: number
  refused: number
  cost_usd: string | null
  flows: number | null
  tokens: Tokens
}

type UsageBucket = 'minute' | 'hour' | 'day' | 'week' | 'month' | 'none'
/** `key`: null for all others together. */
export type UsageGroup = {
  key: string | null | (string | null)[]
  label: string
  labels: string[]
  total: Measures
  points: [string, Measures][]
}
export type Usage = {
  from: string
  to: string
  tz: string
  bucket: UsageBucket
  counted_from: string | null
  total: Measures
  groups: UsageGroup[]
}

export type SpeedMeasures = {
  requests: number
  first_token_ms: { p50: number; p95: number; p99: number }
  tokens_per_second: number | null
}

export type Speed = Pick<Usage, 'from' | 'to' | 'tz' | 'bucket' | 'counted_from'> & {
  data: { provider: string | null; model: string; total: SpeedMeasures; points: [string, SpeedMeasures][] }[]
}

/** An object as it was set at run time, without secrets. */
export type SetObject = {
  value: Record<string, unknown>
  at: string
  by: string
  hidden_by: string | null
  problem: string | null
}

/** `found_by`: what switched it on; `switched_on_by`: what would. */
export type Provider = {
  id: string
  name: string
  on: boolean
  found_by: string | null
  switched_on_by: string | null
  protocols: string[]
  base_url: string | null
  models: number
  set_in: string | null
  set: SetObject | null
  /** `by`: who set it in the console. */
  key: { set: true; last4: string; count: number; source: string; at: string | null; by: string | null } | null
}

/** One small call. `error`: null where it answered. */
export type ProviderTest = {
  model: string
  protocol: string
  status: number | null
  first_byte_ms: number | null
  total_ms: number
  error: string | null
}

type Calls = Record<'requests' | 'failed' | 'wrong_requests' | 'rate_limited', number>
/** The last hour. `first_token_ms`: the median of the streams of a minute. */
export type ProviderHealth = {
  provider: string
  minutes: (Calls & { at: string; first_token_ms: number | null })[]
  failures: { code: string; requests: number }[]
  open: number
  errors: { at: string; model: string | null; code: string; message: string | null }[]
}

/** USD per million tokens, or per unit. `tiers` hold for the whole request above so many prompt tokens. */
export type Rate = { usd: string; tiers: { over: number; usd: string }[] }

export type Model = {
  id: string
  name: string
  on: boolean
  source: string
  set_in: string | null
  set: SetObject | null
  owned_by: string
  context_length: number | null
  max_output_tokens: number | null
  input: string[] | null
  output: string[] | null
  reasoning: boolean | null
  tools: boolean | null
  endpoints: { provider: string; model: string; protocol: string | null; on: boolean }[]
  price_version: string | null
  prices: Partial<Record<string, Rate>> | null
}

export type Plan = {
  tier: string
  set_in: string | null
  set: SetObject | null
  price_usd: string
  discount: number
  windows: { name: string; flows: number; value_usd: string }[]
}

export type Change = {
  id: number
  at: string
  actor: { id: string; name: string }
  address: string | null
  action: string
  target: string
  account: { id: string; name: string } | null
  before: unknown
  after: unknown
  digest: string
}

export type System = {
  version: string
  runtime: string
  started_at: string
  now: string
  url: string | null
  file: string | null
  data: string
  memory_bytes: number
  request_memory_bytes: number
  disk_free_bytes: number | null
  open_requests: number
  problems: string[]
}

/** `set_in`: the line of the file that has it. */
export type RunTimeSetting = {
  path: string
  description: string
  in_force: unknown
  set: unknown
  set_in: string | null
}

export type Settings = { file: string | null; settings: Record<string, unknown>; run_time: RunTimeSetting[] }

/** `restart`: paths that hold from the next start on. */
export type Reloaded = { restart: string[] }
