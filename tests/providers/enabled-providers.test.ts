import { describe, expect, test } from 'bun:test'
import { ConfigError } from '../../src/config/load.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { PROVIDER_ROWS } from '../../src/providers/catalog-rows.ts'
import { catalogueOf, EVERY_KEY } from './catalogues.ts'

/** The providers that environment and configuration file enable, with their addresses and keys. */

describe('enabled providers', () => {
  test('without keys only the sandbox is enabled', () =>
    expect(
      catalogueOf()
        .providers()
        .map(({ id, foundBy, inProcess }) => [id, foundBy, inProcess]),
    ).toEqual([['sandbox', 'built in', 'sandbox']]))

  test('each provider is enabled by its own variables only', () => {
    for (const row of PROVIDER_ROWS)
      for (const variable of row.baseUrl === undefined ? [] : row.keyVariables) {
        expect(
          catalogueOf({ [variable]: 'k' })
            .providers()
            .filter(({ id }) => id !== 'sandbox')
            .map(({ id, foundBy, apiKey }) => [id, foundBy, apiKey]),
        ).toEqual([[row.id, variable, 'k']])
        expect(catalogueOf({ [variable]: ' ' }).providers()).toHaveLength(1)
      }
  })

  test('all providers can be enabled, each with its header and base URL', () => {
    const all = catalogueOf(EVERY_KEY)
    expect(all.providers()).toHaveLength(PROVIDER_ROWS.length - 1)
    const of = (model: string, protocol: ProtocolName) => {
      const { baseUrl, credentials } = all.endpoints(model, protocol)[0]!
      return [baseUrl, credentials]
    }
    expect(of('openai/x', 'responses')).toEqual(['https://api.openai.com/v1', { authorization: 'Bearer k' }])
    expect(of('anthropic/x', 'responses')).toEqual(['https://api.anthropic.com/v1', { 'x-api-key': 'k' }])
    expect(of('google/x', 'responses')).toEqual([
      'https://generativelanguage.googleapis.com/v1beta',
      { 'x-goog-api-key': 'k' },
    ])
    expect(of('vertex/x', 'responses')).toEqual([
      'https://aiplatform.googleapis.com/v1/publishers/google',
      { 'x-goog-api-key': 'k' },
    ])
    expect(of('azure/x', 'responses')).toEqual(['https://h.example/openai/v1', { 'api-key': 'k' }])
    expect(of('deepseek/x', 'messages')).toEqual(['https://api.deepseek.com/anthropic/v1', { 'x-api-key': 'k' }])
    expect(of('deepseek/x', 'responses')).toEqual(['https://api.deepseek.com', { authorization: 'Bearer k' }])
    expect(of('vllm/x', 'messages')).toEqual(['https://h.example', { authorization: 'Bearer k' }])
    expect(of('sandbox/chat', 'messages')[1]).toEqual({})
  })

  test('the configuration file overrides the environment', () => {
    const own = catalogueOf(
      { OPENAI_API_KEY: 'env', OPENAI_BASE_URL: 'http://env/v1', GROQ_API_KEY: 'k' },
      `providers:
  openai:
    { apiKey: file, baseUrl: http://file/v1, auth: api-key, protocol: chat.completions, headers: { X-A: b } }
  groq: { enabled: false }
  sandbox: { enabled: false }`,
    )
    expect(own.providers().map(({ id }) => id)).toEqual(['openai'])
    const endpoint = own.endpoints('openai/x', 'responses')[0]!
    expect([endpoint.protocol, endpoint.baseUrl, endpoint.credentials, { ...endpoint.provider.headers }]).toEqual([
      'chat.completions',
      'http://file/v1',
      { 'api-key': 'file' },
      { 'x-a': 'b' },
    ])
  })

  test('a base URL of the environment is completed with the version that SDKs omit', () => {
    const url = (env: Record<string, string>, model: string) =>
      catalogueOf(env).endpoints(model, 'messages')[0]!.baseUrl
    expect(url({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:5/v1/' }, 'openai/x')).toBe(
      'http://127.0.0.1:5/v1',
    )
    for (const base of ['http://h', 'http://h/', 'http://h/v1'])
      expect(url({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: base }, 'anthropic/x')).toBe('http://h/v1')
  })

  test('a base URL alone does not enable a provider that requires a key', () =>
    expect(catalogueOf({ OPENAI_BASE_URL: 'http://h/v1' }).providers()).toHaveLength(1))

  test('a key of Sluice in the variable of a provider is a ConfigError, unless its base URL is set', () => {
    for (const kind of ['ai', 'ss', 'mg'])
      expect(() => catalogueOf({ GOOGLE_API_KEY: `sk-${kind}-v1-0123456789abcdef` })).toThrow(
        'GOOGLE_API_KEY: is a key of Sluice, not of Google',
      )
    expect(
      catalogueOf({ OPENAI_API_KEY: 'sk-ai-v1-0123456789abcdef', OPENAI_BASE_URL: 'http://h/v1' }).providers(),
    ).toHaveLength(2)
  })

  test('an invalid base URL, or the address of Sluice itself, is a ConfigError', () => {
    expect(() => catalogueOf({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'api.openai.com' })).toThrow(
      new ConfigError(['OPENAI_BASE_URL: must be an http:// or https:// URL']),
    )
    for (const host of ['127.0.0.1', 'localhost', '[::1]'])
      expect(() => catalogueOf({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: `http://${host}:4310` })).toThrow(
        'is the address of Sluice itself',
      )
    expect(
      catalogueOf({ ANTHROPIC_API_KEY: 'k', ANTHROPIC_BASE_URL: 'http://127.0.0.1:4311' }).providers(),
    ).toHaveLength(2)
  })
})
