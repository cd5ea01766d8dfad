import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import builtInPlans from '../../catalog/plans.json'
import { ConfigError, loadConfig, readConfig } from '../../src/config/load.ts'

const ENV = { PORT: '99', KEY: 'k-from-env', EMPTY: '', ON: 'true', LONG: 'sk-0123456789abcdef' }
const read = (text: string) => readConfig(text, 'sluice.yaml', ENV)

const problemsOf = (text: string, env: Record<string, string | undefined> = ENV): string[] => {
  try {
    readConfig(text, 'sluice.yaml', env)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

describe('defaults', () => {
  for (const text of ['', '# only a comment\n', 'providers:\nmodels:\nkeys:\nlisten:\n', '{}']) {
    test(`of ${JSON.stringify(text)}`, () => {
      const { env, ...config } = read(text)
      expect(env).toBe(ENV)
      expect(config).toEqual({
        listen: { host: '127.0.0.1', port: 4310 },
        data: resolve('data'),
        limits: { requestsPerMinute: 600, bodyBytes: 33554432, fileBytes: 536870912 },
        timeouts: { connectMs: 10_000, firstByteMs: 600_000, idleMs: 300_000, totalMs: 3_600_000, drainMs: 30_000 },
        keepAliveMs: 10_000,
        strict: false,
        billing: { startingCredit: 100_000_000_000n, overdraft: 0n, unpriced: 'refuse', delayMs: 180_000 },
        reasoning: { keepMs: 86_400_000 },
        responses: { keepDays: 30 },
        files: { quotaBytes: 10_737_418_240, outputKeepMs: 3_600_000 },
        predictions: { concurrency: 8, waiting: 1_000, keepDays: 30 },
        fetch: { requestUrls: false, bytes: 20_971_520, private: [] },
        accountStatus: {
          refusals: { monitored: 1_000, abusive: 10_000 },
          addresses: { monitored: 200, abusive: 2_000 },
          concurrency: { monitored: 500, abusive: 2_000 },
          penalty: { monitored: 1, abusive: 1.5 },
        },
        providers: new Map(),
        models: new Map(),
        plans: { usdPerFlow: 0.03283, tiers: new Map(Object.entries(builtInPlans.tiers)) },
        keys: [],
      })
    })
  }
})

describe('values', () => {
  test('the form that the first page of the manual shows', () => {
    const config = read(`
listen: { host: 0.0.0.0, port: 80 }
data: /var/lib/sluice
limits: { requestsPerMinute: 5, body: 1.5MiB, file: 2GB }
timeouts: { connect: 250ms, firstByte: 1m, idle: 1.5s, total: 2h, drain: 0s }
keepAlive: 500ms
strict: true
responses: { keepDays: 1 }
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
    expect(config.listen).toEqual({ host: '0.0.0.0', port: 80 })
    expect(config.data).toBe('/var/lib/sluice')
    expect(config.limits).toEqual({ requestsPerMinute: 5, bodyBytes: 1572864, fileBytes: 2_000_000_000 })
    expect(config.timeouts).toEqual({
      connectMs: 250,
      firstByteMs: 60_000,
      idleMs: 1500,
      totalMs: 7_200_000,
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

  test('variables stand for numbers and booleans too, and a default for what is empty', () => {
    const config = read(
      'listen:\n  port: ${PORT}\nlimits:\n  requestsPerMinute: ${NOT_SET:-7}\nproviders:\n  groq:\n    enabled: ${ON}\n    apiKey: ${EMPTY:-x}-${KEY}',
    )
    expect([
      config.listen.port,
      config.limits.requestsPerMinute,
      config.providers.get('groq')!.enabled,
      config.providers.get('groq')!.apiKey,
    ]).toEqual([99, 7, true, 'x-k-from-env'])
  })

  test('aliases are followed', () => {
    const config = read('models:\n  a: &a\n    endpoints: [{ provider: openai, model: x }]\n  b: *a\n')
    expect(config.models.get('b')!.endpoints).toEqual([{ provider: 'openai', model: 'x' }])
  })

  test('an anchor set anew counts from there on', () => {
    const config = read(
      'models:\n  a: { endpoints: &e [{ provider: openai, model: x }] }\n  b: { endpoints: *e }\n  c: { endpoints: &e [{ provider: openai, model: y }] }\n  d: { endpoints: *e }',
    )
    expect(['b', 'd'].map((id) => config.models.get(id)!.endpoints[0]!.model)).toEqual(['x', 'y'])
  })

  test('names that objects are born with are names like any other', () => {
    const config = read(
      'models:\n  __proto__:\n    endpoints: [{ provider: openai, model: constructor }]\n  toString:\n    endpoints: [{ provider: openai, model: x }]\nproviders:\n  openai: { headers: { __proto__: x, constructor: y } }',
    )
    expect([...config.models.keys()]).toEqual(['__proto__', 'toString'])
    expect(Object.entries(config.providers.get('openai')!.headers)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
    expect(({} as Record<string, unknown>).x).toBeUndefined()
  })
})

const OWN = 'providers:\n  acme:\n    protocol: messages\n    baseUrl: http://h/v1\n'

/** Text -> every problem, in order. */
const GOLDEN: [string, string[]][] = [
  ['listen: { prot: 1 }', ['1:11: listen has the unknown key "prot": is port meant?']],
  ['lissten:\n', ['1:1: has the unknown key "lissten": is listen meant?']],
  [
    'qqqqqqqqqqqqqqqqqqqqqqqqq: 1',
    [
      '1:1: has the unknown key "qqqqqqqqqqqqqqqqqqqqqqqqq": known are listen, data, limits, timeouts, keepAlive, strict, billing, files, predictions, fetch, reasoning, responses, providers, models, plans, accountStatus, keys',
    ],
  ],
  ['fetch: { private: ["http://h"] }', ['1:20: fetch.private[0] must be a host, with a port or without']],
  ['predictions: { concurrency: 0 }', ['1:29: predictions.concurrency must be a whole number from 1 to 1000, not 0']],
  [
    'files: { quota: 1 }',
    ["1:17: files.quota must be a size with its unit, like '512KiB' or '32MiB': the unit is missing"],
  ],
  ['listen: { publicUrl: ftp://h }', ['1:22: listen.publicUrl must be an http:// or https:// URL']],
  [
    'listen: { constructor: 1, hasOwnProperty: 2 }',
    [
      '1:11: listen has the unknown key "constructor": known are host, port, publicUrl',
      '1:27: listen has the unknown key "hasOwnProperty": known are host, port, publicUrl',
    ],
  ],
  [
    '- 1',
    [
      '1:1: must be a mapping of listen, data, limits, timeouts, keepAlive, strict, billing, files, predictions, fetch, reasoning, responses, providers, models, plans, accountStatus, keys, not a list',
    ],
  ],
  ['listen:\n  port: "80"', ['2:9: listen.port must be a whole number from 0 to 65535, not a string']],
  ['listen:\n  port: 70000', ['2:9: listen.port must be a whole number from 0 to 65535, not 70000']],
  ['listen:\n  port: 1.5', ['2:9: listen.port must be a whole number from 0 to 65535, not 1.5']],
  ['listen:\n  port: .nan', ['2:9: listen.port must be a whole number from 0 to 65535, not a number']],
  ['listen:\n  port: ${KEY}', ['2:9: listen.port must be a whole number from 0 to 65535']],
  ['listen:\n  port:', ['2:8: listen.port must be a whole number from 0 to 65535, not nothing']],
  ['listen: { host: a b }', ['1:17: listen.host must be a host name or address']],
  ['listen: { host: 1 }', ['1:17: listen.host must be a host name or address, not a number: put it in quotes']],
  ['data: [x]', ['1:7: data must be a folder, not a list']],
  [
    'timeouts: { idle: 5 }',
    ["1:19: timeouts.idle must be a duration with its unit, like '500ms', '10s' or '5m': the unit is missing"],
  ],
  ['timeouts: { idle: 5 min }', ["1:19: timeouts.idle must be a duration with its unit, like '500ms', '10s' or '5m'"]],
  ['timeouts: { idle: 48h }', ['1:19: timeouts.idle must be from 10ms to 24h, not 48h']],
  ['limits: { body: 32mb }', ["1:17: limits.body must be a size with its unit, like '512KiB' or '32MiB'"]],
  ['data: a\ndata: b', ['2:1: has the key "data" twice']],
  ['data: a\n---\ndata: b', ['2:1: must be one document, without a second one after ---']],
  ['data: !!binary aGk=', ['1:16: data must be a folder, not a value of another kind: put it in quotes']],
  ['? [a]\n: b', ['1:3: has a key that is not a plain name']],
  ['data: *nowhere', ['1:7: data names the anchor nowhere, which is not set before it']],
  [
    'data: ${NOT_SET}',
    ['1:7: data needs the environment variable NOT_SET, which is not set: set it, or write ${NOT_SET:-default}'],
  ],
  [
    'data: ${__proto__}',
    ['1:7: data needs the environment variable __proto__, which is not set: set it, or write ${__proto__:-default}'],
  ],
  ['data: ${NOT-A-NAME}', ['1:7: data holds a ${ that is not of the form ${NAME} or ${NAME:-default}']],
  [
    'keys: [{ key: ${LONG} }]',
    ['1:16: Unexpected flow-map-start at node end: ${...} inside { } or [ ] must be in quotes'],
  ],
  [`${OWN}    protcol: messages`, ['5:5: providers.acme has the unknown key "protcol": is protocol meant?']],
  [
    'providers:\n  acme:\n    protocol: mesages\n    baseUrl: http://h',
    [
      '3:15: providers.acme.protocol must be one of chat.completions, responses, messages, generateContent, images, predictions: is messages meant?',
    ],
  ],
  ['providers:\n  acme:\n    protocol: messages', ['3:5: providers.acme needs baseUrl']],
  [
    'providers:\n  opnai: {}',
    ['2:10: providers.opnai needs protocol and baseUrl, unless the built-in provider openai is meant'],
  ],
  [
    'providers:\n  Acme: {}',
    [
      '2:3: providers the name "Acme" must be lower-case letters, digits, dots, - and _, beginning with a letter or digit',
    ],
  ],
  [
    'providers:\n  openai: { protocol: messages }',
    [
      '2:11: providers.openai is built in and speaks responses, chat.completions, images, not messages: choose another id for a provider of your own',
    ],
  ],
  [
    'providers:\n  sandbox: { apiKey: x }',
    ['2:12: providers.sandbox is built in and can only be switched off with enabled: false; apiKey cannot be set'],
  ],
  ['providers:\n  openai: { baseUrl: ftp://h }', ['2:22: providers.openai.baseUrl must be an http:// or https:// URL']],
  [
    'providers:\n  openai: { baseUrl: "http://u:p@h" }',
    ['2:22: providers.openai.baseUrl must not hold a user name or password: use apiKey or headers'],
  ],
  [
    'providers:\n  openai: { baseUrl: "http://u@h" }',
    ['2:22: providers.openai.baseUrl must not hold a user name or password: use apiKey or headers'],
  ],
  [
    'providers:\n  openai: { baseUrl: "http://h/v1?key=1" }',
    ['2:22: providers.openai.baseUrl must end with the path, without ? and #'],
  ],
  [
    'providers:\n  openai: { apiKey: "a\\nb" }',
    ['2:21: providers.openai.apiKey must be printable ASCII without spaces'],
  ],
  [
    'providers:\n  openai: { headers: { Host: x } }',
    ['2:24: providers.openai.headers the name "Host" is set by Sluice itself'],
  ],
  [
    'providers:\n  openai: { headers: { "a b": x } }',
    ['2:24: providers.openai.headers the name "a b" must be the name of a header'],
  ],
  ['providers:\n  openai: { headers: { a: "x\\ny" } }', ['2:27: providers.openai.headers.a must be printable ASCII']],
  [
    'providers:\n  openai: { quirks: { sytemRole: system } }',
    ['2:23: providers.openai.quirks has the unknown key "sytemRole": is systemRole meant?'],
  ],
  [
    'providers:\n  openai: { quirks: { systemRole: user } }',
    ['2:35: providers.openai.quirks.systemRole must be one of system, developer'],
  ],
  ['providers:\n  openai: { enabled: no }', ['2:22: providers.openai.enabled must be true or false, not a string']],
  [
    'models:\n  a:',
    ['2:5: models.a must be a mapping of name, endpoints, price, abilities, contextLength, not nothing'],
  ],
  ['models:\n  a: {}', ['2:6: models.a needs endpoints']],
  ['models:\n  a: { endpoints: [] }', ['2:19: models.a.endpoints must hold at least 1 of endpoints']],
  ['models:\n  a: { endpoints: [{ provider: openai }] }', ['2:20: models.a.endpoints[0] needs model']],
  [
    'models:\n  a: { endpoints: [{ provider: opnai, model: x }] }',
    [
      '2:20: models.a.endpoints[0] names the provider opnai, which is not built in and not under providers: is openai meant?',
    ],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x, protocol: messages }] }',
    ['2:20: models.a.endpoints[0] asks openai for messages, which speaks responses, chat.completions, images'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: ../x }] }',
    ["2:47: models.a.endpoints[0].model must not hold empty, '.' or '..' segments"],
  ],
  [
    'models:\n  a b: { endpoints: [{ provider: openai, model: x }] }',
    ['2:3: models the name "a b" must be 1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { promt: 1 } }',
    ['2:62: models.a.price has the unknown key "promt": is prompt meant?'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { prompt: -1 } }',
    ['2:70: models.a.price.prompt must be a number from 0 to 1000, not -1'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { prompt: [] } }',
    ['2:70: models.a.price.prompt must begin with a number, USD per million tokens'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { prompt: [1, { over: 5 }] } }',
    ['2:74: models.a.price.prompt[1] needs rate'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { prompt: [1, { over: 5, rate: 2 }, { over: 5, rate: 3 }] } }',
    ['2:70: models.a.price.prompt must have its tiers in ascending order of over'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { web_search: 101 } }',
    ['2:74: models.a.price.web_search must be a number from 0 to 100, not 101'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { prompt: 0.0000000001 } }',
    ['2:70: models.a.price.prompt must have at most 9 decimals, not 1e-10'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], capabilities: { budget: { min: 5, max: 1 } } }',
    ['2:6: models.a has a budget whose min is above its max'],
  ],
  ['keys: [{ key: short }]', ['1:15: keys[0].key must be 16 to 256 printable ASCII characters without spaces']],
  ['keys: [{ key: 0123456789abcdefg }, { key: 0123456789abcdefg }]', ['1:36: keys[1] is the same key as one above']],
  ['keys: [{ key: 0123456789abcdefg, models: [] }]', ['1:42: keys[0].models must hold at least 1 of patterns']],
  [
    'keys: [{ key: 0123456789abcdefg, models: ["open ai/*"] }]',
    ["1:43: keys[0].models[0] must be a model's name, in which * stands for any text"],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, limit: -1 }]',
    ['1:41: keys[0].limit must be a number from 0 to 1000000000, not -1'],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, limit: 0.0000000001 }]',
    ['1:41: keys[0].limit must have at most 9 decimals, not 1e-10'],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, limit: 1, limitPeriod: dayly }]',
    ['1:57: keys[0].limitPeriod must be one of day, week, month: is day meant?'],
  ],
  ['keys: [{ key: 0123456789abcdefg, limitPeriod: day }]', ['1:8: keys[0] has a limitPeriod and no limit']],
  [
    'keys: [{ key: 0123456789abcdefg, account: my team }]',
    ['1:43: keys[0].account must be 1 to 100 characters of A-Z a-z 0-9 . _ @ + -, beginning with a letter or digit'],
  ],
  [
    'accountStatus: { refusals: { monitored: 20000 } }',
    ['1:28: accountStatus.refusals has the threshold of monitored (20000) above that of abusive (10000)'],
  ],
  [
    'accountStatus: { concurrency: { abusive: 0 } }',
    ['1:42: accountStatus.concurrency.abusive must be a whole number from 1 to 1000000000, not 0'],
  ],
  [
    'accountStatus: { penalty: { abusive: 0.5 } }',
    ['1:38: accountStatus.penalty.abusive must be a number from 1 to 100, not 0.5'],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, kind: payg }]',
    ['1:40: keys[0].kind must be one of pay-as-you-go, subscription, management'],
  ],
]

describe('accounts and keys', () => {
  test('rules that are not said keep their defaults', () => {
    const { accountStatus } = read('accountStatus: { refusals: { monitored: 5 }, penalty: { abusive: 2.25 } }')
    expect(accountStatus).toEqual({
      refusals: { monitored: 5, abusive: 10_000 },
      addresses: { monitored: 200, abusive: 2_000 },
      concurrency: { monitored: 500, abusive: 2_000 },
      penalty: { monitored: 1, abusive: 2.25 },
    })
  })

  test('a key with every option', () => {
    const { keys } = read(
      'keys: [{ key: "${LONG}", kind: subscription, account: team, models: ["openai/*", fast], limit: 0.000000001, limitPeriod: week }]',
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

describe('problems are told with line and column', () => {
  for (const [text, problems] of GOLDEN)
    test(JSON.stringify(text), () =>
      expect(problemsOf(text)).toEqual(problems.map((problem) => `sluice.yaml:${problem}`)),
    )

  test('all of them, in the order of the file', () => {
    expect(
      problemsOf('limits: { body: 1 }\nlisten:\n  port: x\n  hots: y').map((problem) => problem.split(' ')[0]),
    ).toEqual(['sluice.yaml:1:17:', 'sluice.yaml:3:9:', 'sluice.yaml:4:3:'])
  })

  test('also where one is found only after reading', () => {
    expect(problemsOf('providers:\n  opnai: {}\nlisten:\n  port: x').map((problem) => problem.split(' ')[0])).toEqual([
      'sluice.yaml:2:10:',
      'sluice.yaml:4:9:',
    ])
  })

  test('a secret of the environment is not in them', () => {
    const secret = 'sk secret value'
    for (const path of [
      'data: "${S}\\0"',
      'listen:\n  host: ${S}',
      'providers:\n  openai:\n    apiKey: ${S}',
      'providers:\n  openai:\n    baseUrl: ${S}',
      'keys:\n  - key: ${S}',
      'timeouts:\n  idle: ${S}',
      'listen:\n  port: ${S}',
      'models:\n  a:\n    endpoints:\n      - { provider: "${S}", model: "${S}" }',
    ]) {
      const problems = problemsOf(path, { S: secret })
      expect(problems).not.toEqual([])
      expect(problems.join()).not.toContain('secret')
    }
  })
})

describe('hostile files', () => {
  test('an alias bomb is refused', () => {
    const endpoint = (n: number): string => Array.from({ length: n }, () => '*e').join(', ')
    const models = Array.from({ length: 300 }, (_, i) => `  m${i}: *m`).join('\n')
    const text = `models:\n  e: { endpoints: [&e { provider: openai, model: x }] }\n  m: &m { endpoints: [${endpoint(300)}] }\n${models}`
    expect(problemsOf(text).join()).toContain('unfolds to more than 20000 values')
  })

  test('an alias of itself is refused', () => expect(problemsOf('models: &m\n  a: *m')).not.toEqual([]))

  test('nesting thousands deep is refused', () => {
    for (const text of [
      '['.repeat(50_000),
      `data: ${'['.repeat(50_000)}${']'.repeat(50_000)}`,
      `${'{a: '.repeat(20_000)}1${'}'.repeat(20_000)}`,
    ])
      expect(problemsOf(text)[0]).toStartWith('sluice.yaml:')
  })

  test('problems without end are cut', () =>
    expect(problemsOf(Array.from({ length: 200 }, (_, i) => `k${i}: 1`).join('\n'))).toHaveLength(51))
})

describe('sources', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
  const file = join(folder, 'a.yaml')
  writeFileSync(file, 'listen: { host: 10.0.0.1, port: 1 }\ndata: from-file\n')
  const fail = (options: Parameters<typeof loadConfig>[0], env: Record<string, string> = {}): string => {
    try {
      loadConfig(options, env)
    } catch (error) {
      if (error instanceof ConfigError) return error.message
      throw error
    }
    return 'loads'
  }

  test('option before variable before file before default', () => {
    const env = { SLUICE_CONFIG: file, SLUICE_HOST: '10.0.0.2', SLUICE_PORT: '2', SLUICE_DATA: 'from-env' }
    expect(loadConfig({ host: '10.0.0.3', port: '3', data: 'from-option' }, env)).toMatchObject({
      listen: { host: '10.0.0.3', port: 3 },
      data: resolve('from-option'),
      file,
    })
    expect(loadConfig({}, env)).toMatchObject({ listen: { host: '10.0.0.2', port: 2 }, data: resolve('from-env') })
    expect(loadConfig({ file }, { SLUICE_CONFIG: '/nowhere', SLUICE_HOST: '' })).toMatchObject({
      listen: { host: '10.0.0.1', port: 1 },
      data: resolve('from-file'),
    })
  })

  test('what cannot be used is named', () => {
    expect(fail({ port: '65536' })).toBe('--port: must be a whole number from 0 to 65535')
    expect(fail({ port: '-1' })).toBe('--port: must be a whole number from 0 to 65535')
    expect(fail({}, { SLUICE_PORT: 'x' })).toBe('SLUICE_PORT: must be a whole number from 0 to 65535')
    expect(fail({ data: '' })).toBe('--data: must not be empty')
    expect(fail({ file: join(folder, 'none.yaml') })).toBe(
      `${join(folder, 'none.yaml')}: cannot be read: there is no such file`,
    )
    expect(fail({ file: folder })).toBe(`${folder}: must be a file`)
    writeFileSync(join(folder, 'big.yaml'), `#${'x'.repeat(1024 * 1024)}`)
    expect(fail({ file: join(folder, 'big.yaml') })).toContain('must be at most 1 MiB')
    writeFileSync(join(folder, 'latin1.yaml'), Buffer.from([0x64, 0xe4]))
    expect(fail({ file: join(folder, 'latin1.yaml') })).toContain('must be UTF-8 text')
    rmSync(folder, { recursive: true })
  })
})
