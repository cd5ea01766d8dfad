import type { AttemptRecord } from '../../providers/attempt-record.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { keyedName } from '../../providers/names.ts'
import type { Chosen } from '../../providers/routing/choose.ts'
import { type Dropped, labelOf } from './candidates.ts'

/** The choice of a request: without a decision, there is one endpoint. */
export type ChosenRoute = {
  endpoints: readonly Endpoint[]
  decision: Chosen<Endpoint> | undefined
  dropped: readonly Dropped[]
}

const MOST_ENDPOINTS = 50

/**
 * The header `x-sluice-route`: the endpoint that responds, the others that were tried with the code of their failure,
 * those that were left for later, and those that were left out. `now`: of the router's clock.
 */
export function routeText(
  { endpoints, decision, dropped }: ChosenRoute,
  attempts: readonly AttemptRecord[],
  now: number,
): string {
  const reasons = new Map(decision?.candidates.map(({ endpoint, reason }) => [endpoint.name, reason]))
  const tried = attempts.map(({ provider, credential, error, reason }) => {
    const name = keyedName(provider, credential)
    return { name, served: error === undefined, reason: error ?? reason ?? reasons.get(name) ?? 'only endpoint' }
  })
  const names = new Set(tried.map(({ name }) => name))
  const left = (decision?.candidates.map(({ endpoint }) => endpoint) ?? endpoints).filter(
    ({ name }) => !names.has(name),
  )
  return [
    ...tried.filter(({ served }) => served),
    ...tried.filter(({ served }) => !served),
    ...left.map((endpoint) => ({
      name: labelOf(endpoint),
      reason: decision?.panicUntil === undefined ? 'not tried' : reasons.get(endpoint.name)!,
    })),
    ...(decision?.dropped ?? []).map(({ endpoint, unavailable: { reason, until } }) => ({
      name: labelOf(endpoint),
      reason: reason === 'busy' ? reason : `${reason} ${Math.max(0, Math.ceil((until - now) / 1_000))}s`,
    })),
    ...dropped.map(({ endpoint, reason }) => ({ name: labelOf(endpoint), reason })),
  ]
    .slice(0, MOST_ENDPOINTS)
    .map(({ name, reason }) => `${name};${reason.replace(/[^\x20-\x7e]|[,;]/g, '')}`)
    .join(', ')
}
