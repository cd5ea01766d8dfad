import type { EndpointRoutingConfig, ModelConfig } from '../config/load.ts'
import { present } from '../protocols/fields.ts'
import type { Api } from '../config/provider-terms.ts'
import type { Capabilities } from '../protocols/protocol.ts'
import type { ModelRow } from './catalog-rows.ts'

export type ModelEndpoint = { provider: string; model: string; protocol?: Api } & EndpointRoutingConfig

/** A listed model. */
export type Model = {
  id: string
  name: string
  ownedBy: string
  /** The release date in Unix seconds, if known. */
  createdAt?: number
  /** In the order of attempts; those of disabled providers are skipped. */
  endpoints: ModelEndpoint[]
  /** Added to those of the model's families in `catalog/models.json`. */
  capabilities: Capabilities
  contextLength?: number
}

/** The model of a row of the catalogue. */
export function fromRow({ id, name, released, endpoints, capabilities, contextLength }: ModelRow): Model {
  const [provider = '', ...rest] = id.split('/')
  const model = rest.join('/')
  return {
    id,
    name: name ?? model,
    ownedBy: provider,
    endpoints: endpoints ?? [{ provider, model }],
    capabilities: capabilities ?? {},
    ...(released === undefined ? {} : { createdAt: Date.parse(released) / 1000 }),
    ...(contextLength === undefined ? {} : { contextLength }),
  }
}

/** A configured model. `listed`: that of the catalogue with its id, which a model without endpoints extends. */
export const fromConfig = (own: ModelConfig, listed: Model | undefined): Model =>
  own.endpoints.length > 0 ? replacing(own) : extending(own, listed ?? fromRow({ id: own.id }))

const extending = ({ name, capabilities, contextLength }: ModelConfig, listed: Model): Model => ({
  ...listed,
  ...present('name', name),
  ...present('contextLength', contextLength),
  capabilities: { ...listed.capabilities, ...capabilities },
})

const replacing = ({ id, name, endpoints, capabilities, contextLength }: ModelConfig): Model => ({
  id,
  name: name ?? id,
  ownedBy: endpoints[0]!.provider,
  endpoints,
  capabilities,
  ...(contextLength === undefined ? {} : { contextLength }),
})
