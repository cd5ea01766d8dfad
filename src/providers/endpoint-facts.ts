import type { CredentialConfig, EndpointLimits, EndpointRoutingConfig, ServingFacts } from '../config/load.ts'
import { present } from '../protocols/fields.ts'
import type { EndpointFacts } from './routing/terms.ts'

const NO_LIMITS: EndpointLimits = {}

/** The facts of an endpoint: its own settings, those of its key, and else those of its provider. */
export function factsOf(
  provider: ServingFacts,
  own: EndpointRoutingConfig,
  key: Pick<CredentialConfig, 'weight' | 'limits'>,
): EndpointFacts {
  const { retains, trains } = { ...provider.dataPolicy, ...own.dataPolicy }
  const zdr = own.zdr ?? (own.dataPolicy?.retains === undefined ? provider.zdr : undefined) ?? negated(retains)
  return {
    weight: (own.weight ?? 1) * (key.weight ?? 1),
    priority: own.priority ?? 0,
    ...present('region', own.region ?? provider.region),
    tags: own.tags ?? [],
    dataPolicy: { ...present('retains', negated(zdr) ?? retains), ...present('trains', trains) },
    ...present('zdr', zdr),
    ...present('quantization', own.quantization),
    limits: lower(own.limits, key.limits),
  }
}

function lower(one: EndpointLimits = NO_LIMITS, other: EndpointLimits = NO_LIMITS): EndpointLimits {
  if (one === NO_LIMITS || other === NO_LIMITS) return one === NO_LIMITS ? other : one
  const limits = { ...one, ...other }
  for (const name of ['requestsPerMinute', 'tokensPerMinute', 'concurrency'] as const)
    if (one[name] !== undefined && one[name] < (limits[name] ?? Infinity)) limits[name] = one[name]
  return limits
}

const negated = (fact: boolean | undefined): boolean | undefined => (fact === undefined ? undefined : !fact)
