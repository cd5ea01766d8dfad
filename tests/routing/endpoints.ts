import type { Endpoint } from '../../src/providers/catalogue.ts'
import type { EndpointFacts } from '../../src/providers/routing/terms.ts'

type Options = Partial<EndpointFacts> & { fallback?: string; credential?: string; target?: Endpoint['target'] }

/** An endpoint with the facts that choosing reads. */
export function endpointNamed(id: string, { fallback, credential, target, ...facts }: Options = {}): Endpoint {
  const routing: EndpointFacts = { weight: 1, priority: 0, tags: [], dataPolicy: {}, limits: {}, ...facts }
  return {
    provider: { id },
    name: credential === undefined ? id : `${id}/${credential}`,
    target: target ?? { provider: id, model: 'm', quirks: {}, capabilities: {} },
    routing,
    ...(fallback === undefined ? {} : { fallback }),
    ...(credential === undefined ? {} : { credential }),
  } as unknown as Endpoint
}
