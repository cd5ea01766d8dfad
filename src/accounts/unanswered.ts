import { GatewayError } from '../error.ts'

/** The longest wait for the answer of the store to one question for a lease. */
export const ANSWER_MS = 5_000

export const notLeased = (reason: string): GatewayError =>
  new GatewayError('store_unavailable', `${reason} Retry in a few seconds.`, {
    retryAfterSeconds: 2,
    shouldRetry: true,
  })

export const unanswered = (): never => {
  throw notLeased(`PostgreSQL has not answered for ${ANSWER_MS / 1000} seconds: nothing can be reserved.`)
}
