import type { RequestRow } from '../../api/answers.ts'
import type { Usage as UsageBuckets } from '../../../src/generation/usage.ts'

export type { UsageBuckets }

/** One try of one endpoint; `started_ms`: since the request arrived. */
export type Attempt = {
  provider: string
  model: string | null
  protocol: string | null
  started_ms: number | null
  duration_ms: number | null
  status: number | null
  error: { code: string; message: string | null } | null
}

/** Something that translation dropped or changed. */
export type Loss = { code: string; path: string | null; effect: 'dropped' | 'approximated'; reason: string | null }

type RatingItem = {
  item: string
  quantity: number
  rate_usd: string
  origin_usd: string
  discount_usd: string
  bill_usd: string
}

export type Rating = {
  version: string
  origin_usd: string
  discount_usd: string
  bill_usd: string
  items: RatingItem[]
}

export type Posting = { kind: string; debit: string; credit: string; amount_usd: string }

/** `GET /requests/{id}` */
export type RequestDetail = Omit<RequestRow, 'bodies'> & {
  attempts: Attempt[]
  translation: Loss[]
  /** Every bucket of usage, by its name within Sluice. */
  usage: UsageBuckets | null
  rating: Rating | null
  hold: { held_usd: string | null; settled_usd: string | null } | null
  postings: Posting[]
  refusal?: { status: number; param: string | null } | null
  bodies: { stored: boolean; parts: { name: string; bytes: number; cut: number }[]; why_not: string | null }
}
