import type { Usage } from '../generation/usage.ts'
import type { Endpoint, PredictionEndpoint } from '../providers/catalogue.ts'
import type { OpenGeneration, ReservationRequest } from './open-generation.ts'
import type { Price } from './prices.ts'
import { rateWorst } from './rating.ts'
import { heldPrice, type PricedClasses } from './service-classes.ts'

/** The terms on which one model is used. */
export type ModelTerms = { model: string; price: Price | undefined; classes: PricedClasses | undefined }

type AnyEndpoint = Endpoint | PredictionEndpoint

/** The endpoints of the requested model and of each fallback model, the requested one first. */
export function endpointsByModel(
  model: string,
  endpoints: readonly AnyEndpoint[],
): [model: string, endpoints: readonly AnyEndpoint[]][] {
  if (endpoints.every(({ fallback }) => fallback === undefined)) return [[model, endpoints]]
  return [...Map.groupBy(endpoints, ({ fallback }) => fallback ?? model)]
}

/** The terms under which so much usage costs most: those of the hold, whichever model answers. */
export function mostExpensive(terms: readonly ModelTerms[], worst: Usage): ModelTerms {
  const cost = ({ price, classes }: ModelTerms): bigint =>
    price === undefined ? 0n : rateWorst(worst, heldPrice(price, classes), 0).origin
  return terms.reduce((most, one) => (cost(one) > cost(most) ? one : most))
}

/** The terms under which so much usage of a request costs most: those of the model that answers, once one does. */
export const termsFor = (request: ReservationRequest, usage: Usage): Pick<ReservationRequest, 'price' | 'classes'> =>
  request.models === undefined || request.isAnswered === true ? request : mostExpensive(request.models, usage)

/** A model answers: the generation is charged and recorded on its terms. */
export function adoptTerms({ request }: OpenGeneration, fallback: string | undefined): void {
  const { models } = request
  if (models === undefined) return
  const terms = models.find(({ model }) => model === fallback) ?? models[0]!
  Object.assign(request, terms, { isAnswered: true })
}
