import { describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import builtInPlans from '../../catalog/plans.json'
import { readConfig } from '../../src/config/load.ts'
import { shownUrl } from '../../src/config/store-settings.ts'
import { ENV, read } from './reading.ts'

describe('defaults', () => {
  for (const text of ['', '# only a comment\n', 'providers:\nmodels:\nkeys:\nlisten:\n', '{}']) {
    test(`the text ${JSON.stringify(text)} gives every default`, () => {
      const { env, ...config } = read(text)
      expect(env).toBe(ENV)
      expect(config).toEqual({
        listen: {
          host: '127.0.0.1',
          port: 4310,
          proxies: ['127.0.0.0/8', '::1', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
        },
        workers: 1,
        data: resolve('data'),
        store: {
          durability: 'power',
          quotaBytes: Infinity,
          quotaWithoutCreditBytes: 16_777_216,
          reserve: { share: 0.05, bytes: 1_073_741_824 },
        },
        log: { format: undefined, level: 'info', requests: 'all' },
        metrics: { enabled: true, host: '127.0.0.1', port: undefined },
        limits: {
          requestsPerMinute: 600,
          connectionsPerAddress: 1_000,
          bodyBytes: 33554432,
          elements: 200_000,
          depth: 64,
          parts: 20_000,
          tools: 2_000,
          fileBytes: 536870912,
          conversationBytes: 67108864,
        },
        timeouts: {
          connectMs: 10_000,
          firstByteMs: 600_000,
          idleMs: 300_000,
          totalMs: 3_600_000,
          clientLeftMs: 60_000,
          clientStalledMs: 120_000,
          drainMs: 30_000,
        },
        keepAliveMs: 10_000,
        strict: false,
        billing: {
          startingCredit: 100_000_000_000n,
          overdraft: 0n,
          whenExhausted: { payAsYouGo: 'cut', subscription: 'finish' },
          unpriced: 'auto',
          unpricedClasses: 'auto',
          unpricedTools: 'auto',
          delayMs: 180_000,
        },
        reasoning: { keepMs: 86_400_000 },
        retention: { recordMonths: undefined },
        responses: { keepDays: 30, quotaBytes: 10_737_418_240, count: 1_000_000 },
        idempotency: { keepMs: 86_400_000, accountBytes: 67_108_864, totalBytes: 1_073_741_824 },
        files: { store: 'folder', quotaBytes: 10_737_418_240, outputKeepMs: 3_600_000 },
        predictions: {
          concurrency: 8,
          waiting: 1_000,
          keepDays: 30,
          quotaBytes: 10_737_418_240,
          count: 1_000_000,
        },
        fetch: { requestUrls: false, bytes: 20_971_520, private: [] },
        console: { enabled: true, hosts: [], sessionHours: 12 },
        capture: {
          most: 'off',
          default: 'off',
          bytes: 262144,
          keepMs: 604_800_000,
          quotaBytes: 5 * 2 ** 30,
          redact: [],
        },
        accountStatus: {
          refusals: { monitored: 1_000, abusive: 10_000 },
          addresses: { monitored: 200, abusive: 2_000 },
          concurrency: { monitored: 500, abusive: 2_000 },
          penalty: { monitored: 1, abusive: 1.5 },
          requestsPerMinute: 60,
        },
        providers: new Map(),
        models: new Map(),
        routing: {
          strategy: 'order',
          hedge: 'off',
          attempts: 4,
          fallbackOn: [],
          retryBudget: { share: 0.2, perSecond: 10 },
          queue: { waitMs: 10_000, requests: 1_000 },
        },
        plans: { usdPerFlow: 0.03283, tiers: new Map(Object.entries(builtInPlans.tiers)) },
        keys: [],
      })
    })
  }
})

describe('values', () => {
  test('every kind of setting is read', () => {
    const config = read(`
listen: { host: 0.0.0.0, port: 80, proxies: [203.0.113.7, "2001:db8::/32"] }
data: /var/lib/sluice
store: { durability: process, quota: 1TiB, quotaWithoutCredit: 0B, reserve: 2.5% }
limits: { requestsPerMinute: 5, body: 1.5MiB, file: 2GB, conversations: 0B,
  elements: 1000000, depth: 32, parts: 500, tools: 50, connectionsPerAddress: 50 }
timeouts: { connect: 250ms, firstByte: 1m, idle: 1.5s, total: 2h, drain: 0s }
keepAlive: 500ms
strict: true
responses: { keepDays: 1, quota: 1MiB, count: 5 }
providers:
  acme:
    protocol: messages
    baseUrl: http://127.0.0.1:9999/v1
    apiKey: \${ACME_KEY:-none}
    unlisted: true
    headers: { X-Team: "\${KEY}" }
    quirks: { systemRole: developer, routesItself: true }
models:
  acme/large:
    endpoints: [{ provider: acme, model: large-2026 }]
    price: { prompt: 3, completion: [15, { over: 200000, rate: 22.5 }], input_cache_read: 0.3 }
    capabilities: { reasoning: budget, budget: { min: 0, max: 10 }, sampling: false }
keys: [{ key: "\${LONG}", requestsPerMinute: 1 }]
`)
    expect(config.listen).toEqual({ host: '0.0.0.0', port: 80, proxies: ['203.0.113.7', '2001:db8::/32'] })
    expect(config.data).toBe('/var/lib/sluice')
    expect(config.store).toEqual({
      durability: 'process',
      quotaBytes: 2 ** 40,
      quotaWithoutCreditBytes: 0,
      reserve: { share: 0.025, bytes: Infinity },
    })
    expect(config.responses).toEqual({ keepDays: 1, quotaBytes: 2 ** 20, count: 5 })
    expect(read('store: { reserve: 1GiB }').store).toMatchObject({ reserve: { share: 1, bytes: 2 ** 30 } })
    expect(config.limits).toEqual({
      requestsPerMinute: 5,
      connectionsPerAddress: 50,
      bodyBytes: 1572864,
      elements: 1_000_000,
      depth: 32,
      parts: 500,
      tools: 50,
      fileBytes: 2_000_000_000,
      conversationBytes: 0,
    })
    expect(config.timeouts).toEqual({
      connectMs: 250,
      firstByteMs: 60_000,
      idleMs: 1500,
      totalMs: 7_200_000,
      clientLeftMs: 60_000,
      clientStalledMs: 120_000,
      drainMs: 0,
    })
    expect(config.keepAliveMs).toBe(500)
    expect(config.strict).toBe(true)
    const acme = config.providers.get('acme')!
    expect({ ...acme, headers: { ...acme.headers }, quirks: { ...acme.quirks } }).toEqual({
      id: 'acme',
      enabled: true,
      protocol: 'messages',
      baseUrl: 'http://127.0.0.1:9999/v1',
      apiKey: 'none',
      unlisted: true,
      headers: { 'x-team': 'k-from-env' },
      quirks: { systemRole: 'developer', routesItself: true },
    })
    expect(JSON.parse(JSON.stringify(config.models.get('acme/large')))).toEqual({
      id: 'acme/large',
      endpoints: [{ provider: 'acme', model: 'large-2026' }],
      price: { prompt: 3, completion: [15, { over: 200_000, rate: 22.5 }], input_cache_read: 0.3 },
      capabilities: { reasoning: 'budget', budget: { min: 0, max: 10 }, sampling: false },
    })
    expect(config.keys).toEqual([
      { key: 'sk-0123456789abcdef', kind: 'pay-as-you-go', name: 'key 1', requestsPerMinute: 1 },
    ])
  })

  test('the store is a URL, or its settings with a URL', () => {
    const kept = { quotaBytes: Infinity, quotaWithoutCreditBytes: 16 * 2 ** 20 }
    const url = 'postgres://sluice:k-from-env@db.example:5433/sluice'
    expect(read('store: postgres://sluice:${KEY}@db.example:5433/sluice').store).toEqual({
      ...kept,
      postgres: { url, connections: 10, patienceMs: 10_000, deadAfterMs: 15_000 },
    })
    expect(
      read('store: { url: "postgres://sluice:${KEY}@db.example:5433/sluice", connections: 20, patience: 30s }').store,
    ).toEqual({ ...kept, postgres: { url, connections: 20, patienceMs: 30_000, deadAfterMs: 15_000 } })
    expect(read('store: postgres://host/sluice\nworkers: 4').workers).toBe(4)
    expect(read('store: "postgresql:///sluice?host=/run/postgresql"').store.postgres).toBeDefined()
  })

  test('the URL of a store is shown without its password and parameters', () => {
    expect(shownUrl('postgres://sluice:k-3f9a@db.example:5433/sluice?sslpassword=k-3f9a')).toBe(
      'postgres://sluice@db.example:5433/sluice',
    )
    expect(shownUrl('postgres:///sluice?host=/run/postgresql')).toBe('postgres:///sluice')
  })

  test('variables may also be numbers and booleans, and a default replaces an empty variable', () => {
    const config = read(
      'listen:\n  port: ${PORT}\nlimits:\n  requestsPerMinute: ${NOT_SET:-7}\n' +
        'providers:\n  groq:\n    enabled: ${ON}\n    apiKey: ${EMPTY:-x}-${KEY}',
    )
    expect([
      config.listen.port,
      config.limits.requestsPerMinute,
      config.providers.get('groq')!.enabled,
      config.providers.get('groq')!.apiKey,
    ]).toEqual([99, 7, true, 'x-k-from-env'])
  })

  test('an alias has the value of its anchor', () => {
    const config = read('models:\n  a: &a\n    endpoints: [{ provider: openai, model: x }]\n  b: *a\n')
    expect(config.models.get('b')!.endpoints).toEqual([{ provider: 'openai', model: 'x' }])
  })

  test('a redefined anchor applies to the aliases after it', () => {
    const config = read(
      'models:\n  a: { endpoints: &e [{ provider: openai, model: x }] }\n  b: { endpoints: *e }\n' +
        '  c: { endpoints: &e [{ provider: openai, model: y }] }\n  d: { endpoints: *e }',
    )
    expect(['b', 'd'].map((id) => config.models.get(id)!.endpoints[0]!.model)).toEqual(['x', 'y'])
  })

  test('names of members of Object.prototype are ordinary names', () => {
    const config = read(
      'models:\n  __proto__:\n    endpoints: [{ provider: openai, model: constructor }]\n' +
        '  toString:\n    endpoints: [{ provider: openai, model: x }]\n' +
        'providers:\n  openai: { headers: { __proto__: x, constructor: y } }',
    )
    expect([...config.models.keys()]).toEqual(['__proto__', 'toString'])
    expect(Object.entries(config.providers.get('openai')!.headers)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
    expect(({} as Record<string, unknown>).x).toBeUndefined()
  })
})

describe('accounts and keys', () => {
  test('an unlimited starting credit is the largest amount', () =>
    expect(read('billing: { startingCredit: unlimited }').billing.startingCredit).toBe(10n ** 18n))

  test('thresholds that are not set keep their defaults', () => {
    const { accountStatus } = read('accountStatus: { refusals: { monitored: 5 }, penalty: { abusive: 2.25 } }')
    expect(accountStatus).toEqual({
      refusals: { monitored: 5, abusive: 10_000 },
      addresses: { monitored: 200, abusive: 2_000 },
      concurrency: { monitored: 500, abusive: 2_000 },
      penalty: { monitored: 1, abusive: 2.25 },
      requestsPerMinute: 60,
    })
  })

  test('a key without a kind has the kind that its text begins with', () => {
    const keys = ['sk-ss-v1', 'sk-mg-v1', 'sk-ai-v1', 'any'].map((begin) => ({ key: `${begin}-0123456789abcdef` }))
    expect(read(`keys: ${JSON.stringify(keys)}`).keys.map(({ kind }) => kind)).toEqual([
      'subscription',
      'management',
      'pay-as-you-go',
      'pay-as-you-go',
    ])
  })

  test('a key is read with every option', () => {
    const { keys } = read(
      'keys: [{ key: "${LONG}", kind: subscription, account: team, models: ["openai/*", fast], ' +
        'limit: 0.000000001, limitPeriod: week }]',
    )
    expect(keys).toEqual([
      {
        key: 'sk-0123456789abcdef',
        kind: 'subscription',
        name: 'key 1',
        account: 'team',
        models: ['openai/*', 'fast'],
        limit: 1n,
        limitPeriod: 'week',
      },
    ])
  })
})

describe('routing', () => {
  test('keys, facts and limits of providers and endpoints are read', () => {
    const { providers, models, routing, limits, plans } = readConfig(
      `providers:
  acme:
    protocol: messages
    baseUrl: http://h/v1
    apiKeys: [{ name: a, key: "\${KEY}", weight: 2, limits: { concurrency: 3 } }, { name: b, key: "2" }]
    region: eu
    dataPolicy: { trains: false }
models:
  m:
    endpoints: [{ provider: acme, model: n, weight: 0.5, priority: 1, tags: [x], zdr: true, quantization: fp8 }]
    fallbacks: [o, p]
    contextFallback: q
    routing: { strategy: price, patience: 5s }
routing: { hedge: p95, queue: { requests: 5 }, retryBudget: { share: 0.5 } }
limits: { concurrency: 7, accountConcurrency: 2 }
plans: { tiers: { pro: { concurrency: 9 } } }
`,
      'sluice.yaml',
      { KEY: 'secret' },
    )
    expect(providers.get('acme')).toMatchObject({
      apiKeys: [
        { name: 'a', key: 'secret', weight: 2, limits: { concurrency: 3 } },
        { name: 'b', key: '2' },
      ],
      region: 'eu',
      dataPolicy: { trains: false },
    })
    expect(models.get('m')).toMatchObject({
      endpoints: [
        { provider: 'acme', model: 'n', weight: 0.5, priority: 1, tags: ['x'], zdr: true, quantization: 'fp8' },
      ],
      fallbacks: ['o', 'p'],
      contextFallback: 'q',
      routing: { strategy: 'price', patienceMs: 5_000 },
    })
    expect(routing).toMatchObject({
      strategy: 'order',
      hedge: 'p95',
      queue: { waitMs: 10_000, requests: 5 },
      retryBudget: { share: 0.5, perSecond: 10 },
    })
    expect([limits.concurrency, limits.accountConcurrency]).toEqual([7, 2])
    expect(plans.tiers.get('pro')).toMatchObject({ concurrency: 9 })
  })
})
