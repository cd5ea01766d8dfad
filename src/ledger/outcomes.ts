import { asGatewayError } from '../error.ts'

/** The end of a generation. Each has exactly one outcome; records keep it in their field `ending`. */
export type Outcome = 'completed' | 'client-left' | 'failed' | 'timed-out' | 'shutdown' | 'crashed' | 'exhausted'

/**
 * The usage that is charged: `reported` by the provider (counted here where it reported none), `received` until the
 * end, `generated` until the end (received or not) where the request was sent to a provider, or `nothing`.
 */
export type ChargePolicy = 'reported' | 'received' | 'generated' | 'nothing'

/**
 * The charge policy of each outcome, before and after the first event of the provider's response. A client that leaves
 * pays for what its request made the provider do, otherwise leaving early would make requests free. A failure that is
 * not the client's is not charged before the first event.
 */
export const OUTCOMES: Record<Outcome, { before: ChargePolicy; after: ChargePolicy }> = {
  completed: { before: 'reported', after: 'reported' },
  'client-left': { before: 'generated', after: 'generated' },
  failed: { before: 'nothing', after: 'received' },
  'timed-out': { before: 'nothing', after: 'received' },
  shutdown: { before: 'nothing', after: 'received' },
  crashed: { before: 'nothing', after: 'received' },
  exhausted: { before: 'generated', after: 'generated' },
}

/** The outcome of a generation that ended with this error. */
export const outcomeOf = (error: unknown): Outcome =>
  asGatewayError(error).code === 'upstream_timeout' ? 'timed-out' : 'failed'
