import { readConfig } from '../../src/config/load.ts'
import { GatewayError } from '../../src/error.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'

/** Catalogues of an environment and a configuration text, and their endpoints as text. */

export const catalogueOf = (env: Record<string, string> = {}, text = ''): Catalogue =>
  new Catalogue(readConfig(text, 'sluice.yaml', env))

/** An environment that enables every provider. */
export const EVERY_KEY = Object.fromEntries([
  ...PROVIDER_ROWS.flatMap(({ keyVariables }) => keyVariables.map((name) => [name, 'k'])),
  ...PROVIDER_ROWS.filter(({ baseUrl }) => baseUrl === undefined).map(({ baseUrlVariable }) => [
    baseUrlVariable!.name,
    'https://h.example/',
  ]),
]) as Record<string, string>

/** Two providers of the configuration file, one of messages and one of images. */
export const ACME = `providers:
  acme: { protocol: messages, baseUrl: "http://127.0.0.1:9/v1/", apiKey: secret, unlisted: true }
  painter: { protocol: images, baseUrl: "http://127.0.0.1:9/v1", unlisted: true }
`

/** `provider:model over protocol` of each endpoint. */
export const endpointsOf = (
  catalogue: Catalogue,
  model: string,
  protocol: ProtocolName = 'chat.completions',
): string[] =>
  catalogue
    .endpoints(model, protocol)
    .map((endpoint) => `${endpoint.target.provider}:${endpoint.target.model} over ${endpoint.protocol}`)

/** The error for a model name that does not resolve. */
export const refusalOf = (catalogue: Catalogue, model: string): GatewayError => {
  try {
    catalogue.endpoints(model, 'messages')
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error(`${model} was found`)
}
