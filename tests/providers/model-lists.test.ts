import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ConfigError, readConfig, type Config } from '../../src/config/load.ts'
import { API_NAMES } from '../../src/config/provider-terms.ts'
import type { AppContext, AuthenticatedRequest } from '../../src/context.ts'
import { getModel, listGoogleModels, listModels } from '../../src/endpoints/models.ts'
import { Prices } from '../../src/ledger/prices.ts'
import { PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { runs } from '../runs.ts'
import { catalogueOf, EVERY_KEY, refusalOf } from './catalogues.ts'

/** The model lists under any configuration: each model that they name can be requested. */

const IDS = [...PROVIDER_ROWS.map(({ id }) => id), 'acme', 'painter']
const api = fc.constantFrom(...API_NAMES)
const provider = fc.record(
  {
    enabled: fc.boolean(),
    protocol: api,
    baseUrl: fc.constant('http://127.0.0.1:9/v1'),
    apiKey: fc.constantFrom('k', ''),
    unlisted: fc.boolean(),
  },
  { requiredKeys: [] },
)
const endpoint = fc.record(
  { provider: fc.constantFrom(...IDS), model: fc.constantFrom('x', 'gpt-5', 'gpt-image-1'), protocol: api },
  { requiredKeys: ['provider', 'model'] },
)
const file = fc.record({
  providers: fc.dictionary(fc.constantFrom(...IDS), provider, { maxKeys: 6 }),
  models: fc.dictionary(
    fc.constantFrom('fast', 'acme/large', 'openai/gpt-4o', 'xai/grok-imagine-image'),
    fc.record({ endpoints: fc.array(endpoint, { minLength: 1, maxLength: 3 }) }),
    { maxKeys: 3 },
  ),
})
const environment = fc.subarray(Object.keys(EVERY_KEY))

/** Undefined for an invalid configuration. */
function configOf(text: string, names: string[]): Config | undefined {
  try {
    return readConfig(text, 'f.yaml', Object.fromEntries(names.map((name) => [name, EVERY_KEY[name]])))
  } catch (error) {
    if (error instanceof ConfigError) return undefined
    throw error
  }
}

const call = (headers: Record<string, string> = {}, ...params: string[]): AuthenticatedRequest =>
  ({
    request: new Request('http://127.0.0.1/v1/models', { headers }),
    query: new URLSearchParams(),
    params,
    identity: { allows: () => true },
  }) as unknown as AuthenticatedRequest

test('the lists of all dialects name exactly the models that can be requested', async () => {
  let valid = 0
  await fc.assert(
    fc.asyncProperty(file, environment, async (tree, names) => {
      const config = configOf(JSON.stringify(tree), names)
      if (config === undefined) return
      valid++
      const modules = { config, catalogue: new Catalogue(config), prices: new Prices(config) }
      // With several accounts, models without a price are left out.
      const app = { ...modules, keys: { haveOneAccount: names.length % 2 === 0 } } as unknown as AppContext
      const { data } = (await (await listModels(app, call())).json()) as { data: { id: string }[] }
      const anthropic = (await (await listModels(app, call({ 'anthropic-version': '2023-06-01' }))).json()) as {
        data: { id: string }[]
      }
      const google = (await listGoogleModels(app, call()).json()) as { models: { name: string }[] }
      const ids = data.map(({ id }) => id)
      for (const id of ids) expect([id, getModel(app, call({}, id)).status]).toEqual([id, 200])
      expect(ids).toContain('sandbox/chat')
      const conversational = ids.filter((id) => anthropic.data.some((model) => model.id === id))
      expect(anthropic.data.map(({ id }) => id)).toEqual(conversational)
      expect(google.models.map(({ name }) => name)).toEqual(conversational.map((id) => `models/${id}`))
    }),
    {
      numRuns: runs(60, 3_000),
      examples: [[{ providers: { openai: { protocol: 'chat.completions', apiKey: 'k' } }, models: {} }, []]],
    },
  )
  expect(valid).toBeGreaterThan(0)
}, 120_000)

test('a model whose protocol the configuration excludes is refused with the setting that does so', () => {
  const catalogue = catalogueOf({}, 'providers: { openai: { protocol: chat.completions, apiKey: k } }')
  expect(refusalOf(catalogue, 'openai/gpt-image-2').message).toBe(
    'The model openai/gpt-image-2 is not available on this server; for its operator: openai is used over ' +
      'chat.completions only (providers.openai.protocol).',
  )
})
