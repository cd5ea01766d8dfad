import { asGatewayError } from '../error.ts'

/** How a generation ended: one of these, once. */
export type Outcome = 'completed' | 'client-left' | 'failed' | 'timed-out' | 'shutdown' | 'crashed'

/**
 * What is charged: `reported` usage (counted where the provider reported none), what was `heard` until then, its
 * `input` alone where its provider was reached, or nothing.
 */
export type ChargePolicy = 'reported' | 'heard' | 'input' | 'nothing'

/**
 * The ending policy, by whether the provider's answer had begun. A client that leaves pays for what its request had
 * already set in
 * motion, else leaving early would be a way to ask for nothing; what broke without its doing is not charged before it
 * heard a word.
 */
export const OUTCOMES: Record<Outcome, { before: ChargePolicy; after: ChargePolicy }> = {
  completed: { before: 'reported', after: 'reported' },
  'client-left': { before: 'input', after: 'heard' },
  failed: { before: 'nothing', after: 'heard' },
  'timed-out': { before: 'nothing', after: 'heard' },
  shutdown: { before: 'nothing', after: 'heard' },
  crashed: { before: 'nothing', after: 'heard' },
}

/** The ending of a generation that an error ended. */
export const outcomeOf = (error: unknown): Outcome =>
  asGatewayError(error).code === 'upstream_timeout' ? 'timed-out' : 'failed'
