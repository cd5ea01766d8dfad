import { describe, expect, test } from 'bun:test'
import { problemsOf } from './reading.ts'

const TOP_LEVEL_KEYS =
  'listen, workers, data, store, log, metrics, limits, timeouts, keepAlive, strict, billing, files, predictions, ' +
  'fetch, reasoning, responses, retention, idempotency, providers, models, routing, plans, capture, accountStatus, ' +
  'console, keys'

const NAME_RULE = '1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -'

const OWN = 'providers:\n  acme:\n    protocol: messages\n    baseUrl: http://h/v1\n'

/** A text, and its problems in order. */
const PROBLEMS: [string, string[]][] = [
  ['listen: { prot: 1 }', ['1:11: listen has the unknown key "prot" (did you mean port?)']],
  ['lissten:\n', ['1:1: has the unknown key "lissten" (did you mean listen?)']],
  [
    'qqqqqqqqqqqqqqqqqqqqqqqqq: 1',
    [`1:1: has the unknown key "qqqqqqqqqqqqqqqqqqqqqqqqq" (known keys: ${TOP_LEVEL_KEYS})`],
  ],
  ['capture: { default: all }', ['1:21: capture.default is all, above capture.most (off), so set most: all, too']],
  [
    'capture: { most: errors, default: all }',
    ['1:35: capture.default is all, above capture.most (errors), so set most: all, too'],
  ],
  ['fetch: { private: ["http://h"] }', ['1:20: fetch.private[0] must be a host, with or without a port']],
  ['retention: { records: 13 days }', ["1:23: retention.records must be 'forever' or like '13 months'"]],
  ['predictions: { concurrency: 0 }', ['1:29: predictions.concurrency must be a whole number from 1 to 1000, not 0']],
  [
    'files: { quota: 1 }',
    ["1:17: files.quota must be a size with a unit, such as '512KiB' or '32MiB'; the unit is missing"],
  ],
  ['listen: { publicUrl: ftp://h }', ['1:22: listen.publicUrl must be an http:// or https:// URL']],
  [
    'listen: { constructor: 1, hasOwnProperty: 2 }',
    [
      '1:11: listen has the unknown key "constructor" (known keys: host, port, publicUrl, proxies)',
      '1:27: listen has the unknown key "hasOwnProperty" (known keys: host, port, publicUrl, proxies)',
    ],
  ],
  [
    `${OWN}    apiKeys: [{ name: a, key: k1 }, { name: a, key: k2 }, { name: b, key: k1 }, { name: c d }]`,
    [
      '5:37: providers.acme.apiKeys[1] has the name of an earlier key, a',
      '5:59: providers.acme.apiKeys[2] is the same key as an earlier one',
      '5:81: providers.acme.apiKeys[3] requires key',
      '5:89: providers.acme.apiKeys[3].name must be 1 to 64 characters of A-Z a-z 0-9 . _ -, ' +
        'beginning with a letter or digit',
    ],
  ],
  [
    `${OWN}    apiKey: a\n    apiKeys: [{ name: b, key: c, limits: { requestsPerHour: 1 } }]`,
    [
      '3:5: providers.acme has apiKey and apiKeys: add the one key to the list',
      '6:44: providers.acme.apiKeys[0].limits has the unknown key "requestsPerHour" ' +
        '(known keys: requestsPerMinute, tokensPerMinute, concurrency)',
    ],
  ],
  [`${OWN}    apiKeys: []`, ['5:14: providers.acme.apiKeys must be a list of keys with at least 1 element']],
  [
    'models: { a: { endpoints: [{ provider: openai, model: b, zdr: true, dataPolicy: { retains: true }, ' +
      'weight: -1 }] } }',
    [
      '1:28: models.a.endpoints[0] has zdr: true, but dataPolicy.retains: true',
      '1:108: models.a.endpoints[0].weight must be a number from 0 to 1000000, not -1',
    ],
  ],
  ['models: { a/b: { fallbacks: [c, d e] } }', [`1:33: models.a/b.fallbacks[1] must be ${NAME_RULE}`]],
  [
    'routing: { strategy: cheapest, attempts: 0, hedge: p99, queue: { wait: 1h } }',
    [
      '1:22: routing.strategy must be one of order, weights, price, latency, throughput, least-busy',
      '1:42: routing.attempts must be a whole number from 1 to 10, not 0',
      '1:52: routing.hedge must be one of off, p95 (did you mean p95?)',
      '1:72: routing.queue.wait must be from 0s to 10m, not 1h',
    ],
  ],
  ['- 1', [`1:1: must be a mapping of ${TOP_LEVEL_KEYS}, not a list`]],
  ['listen:\n  port: "80"', ['2:9: listen.port must be a whole number from 0 to 65535, not a string']],
  ['listen:\n  port: 70000', ['2:9: listen.port must be a whole number from 0 to 65535, not 70000']],
  ['listen:\n  port: 1.5', ['2:9: listen.port must be a whole number from 0 to 65535, not 1.5']],
  ['listen:\n  port: .nan', ['2:9: listen.port must be a whole number from 0 to 65535, not a number']],
  ['listen:\n  port: ${KEY}', ['2:9: listen.port must be a whole number from 0 to 65535']],
  ['listen:\n  port:', ['2:8: listen.port must be a whole number from 0 to 65535, not nothing']],
  ['listen: { host: a b }', ['1:17: listen.host must be a host name or address']],
  ['listen: { host: 1 }', ['1:17: listen.host must be a host name or address, not a number: put it in quotes']],
  ['store: { durability: disk }', ['1:22: store.durability must be one of power, process']],
  [
    'store: { url: postgres://user@host/sluice, durability: power, reserve: 5% }',
    [
      '1:56: store.durability applies to SQLite, not to the PostgreSQL of store.url: remove it',
      '1:72: store.reserve applies to SQLite, not to the PostgreSQL of store.url: remove it',
    ],
  ],
  [
    'store: { connections: 5, patience: 1s }',
    [
      '1:23: store.connections applies to PostgreSQL and requires store.url: postgres://user:password@host/database',
      '1:36: store.patience applies to PostgreSQL and requires store.url: postgres://user:password@host/database',
    ],
  ],
  ['data: x\nworkers: 4', ['2:10: workers requires PostgreSQL (store: postgres://...): SQLite belongs to one process']],
  [
    'store: mysql://root:k-3f9a@host/sluice',
    [
      '1:8: store has the scheme mysql, and must be postgres://user:password@host/database; ' +
        'without a URL, Sluice stores in data',
    ],
  ],
  ...['postgres:sluice', '"postgres://user:a#b@host/sluice"', 'postgres://', 'folder', '""'].map(
    (text): [string, string[]] => [
      `store: ${text}`,
      [
        '1:8: store must be a URL such as postgres://user:password@host/database; ' +
          'characters such as # / @ in a password are percent-encoded',
      ],
    ],
  ),
  ['store: { url: postgres://host }', ['1:15: store.url must name a database: postgres://user:password@host/database']],
  ['data: [x]', ['1:7: data must be a folder, not a list']],
  [
    'timeouts: { idle: 5 }',
    ["1:19: timeouts.idle must be a duration with a unit, such as '500ms', '10s' or '5m'; the unit is missing"],
  ],
  ['timeouts: { idle: 5 min }', ["1:19: timeouts.idle must be a duration with a unit, such as '500ms', '10s' or '5m'"]],
  ['timeouts: { idle: 48h }', ['1:19: timeouts.idle must be from 10ms to 24h, not 48h']],
  [
    'listen: { proxies: [10.0.0.0/33, "::1/64", proxy, 256.1.1.1, "::1::", 10.0.0.1] }',
    [
      '1:21: listen.proxies[0] must be an address or a range of addresses, such as 203.0.113.7 or 10.0.0.0/8',
      '1:44: listen.proxies[2] must be an address or a range of addresses, such as 203.0.113.7 or 10.0.0.0/8',
      '1:51: listen.proxies[3] must be an address or a range of addresses, such as 203.0.113.7 or 10.0.0.0/8',
      '1:62: listen.proxies[4] must be an address or a range of addresses, such as 203.0.113.7 or 10.0.0.0/8',
    ],
  ],
  ['limits: { body: 32mb }', ["1:17: limits.body must be a size with a unit, such as '512KiB' or '32MiB'"]],
  ['data: a\ndata: b', ['2:1: has the key "data" twice']],
  ['data: a\n---\ndata: b', ['2:1: must be a single document, without a second one after ---']],
  ['data: !!binary aGk=', ['1:16: data must be a folder, not a value of another kind: put it in quotes']],
  ['? [a]\n: b', ['1:3: has a key that is not a plain name']],
  ['data: *nowhere', ['1:7: data refers to the anchor nowhere, which is not defined before it']],
  ['data: ${NOT_SET}', ['1:7: data requires the environment variable NOT_SET; set it, or write ${NOT_SET:-default}']],
  [
    'data: ${__proto__}',
    ['1:7: data requires the environment variable __proto__; set it, or write ${__proto__:-default}'],
  ],
  ['data: ${NOT-A-NAME}', ['1:7: data contains a ${ that is not of the form ${NAME} or ${NAME:-default}']],
  [
    'keys: [{ key: ${LONG} }]',
    ['1:16: Unexpected flow-map-start at node end; ${...} inside { } or [ ] must be quoted'],
  ],
  [`${OWN}    protcol: messages`, ['5:5: providers.acme has the unknown key "protcol" (did you mean protocol?)']],
  [
    'providers:\n  acme:\n    protocol: mesages\n    baseUrl: http://h',
    [
      '3:15: providers.acme.protocol must be one of chat.completions, responses, messages, generateContent, ' +
        'images, predictions (did you mean messages?)',
    ],
  ],
  ['providers:\n  acme:\n    protocol: messages', ['3:5: providers.acme requires baseUrl']],
  [
    'providers:\n  opnai: {}',
    ['2:10: providers.opnai requires protocol and baseUrl (did you mean the built-in provider openai?)'],
  ],
  [
    'providers:\n  Acme: {}',
    [
      '2:3: providers has the name "Acme", which must be lower-case letters, digits, dots, - and _, ' +
        'beginning with a letter or digit',
    ],
  ],
  [
    'providers:\n  openai: { protocol: messages }',
    [
      '2:11: providers.openai is built in and supports responses, chat.completions, images, not messages; ' +
        'choose another id for a provider of your own',
    ],
  ],
  [
    'providers:\n  sandbox: { apiKey: x }',
    ['2:12: providers.sandbox is built in: it can only be switched off with enabled: false; apiKey cannot be set'],
  ],
  ['providers:\n  openai: { baseUrl: ftp://h }', ['2:22: providers.openai.baseUrl must be an http:// or https:// URL']],
  [
    'providers:\n  openai: { baseUrl: "http://u:p@h" }',
    ['2:22: providers.openai.baseUrl must not contain a user name or password; use apiKey or headers'],
  ],
  [
    'providers:\n  openai: { baseUrl: "http://u@h" }',
    ['2:22: providers.openai.baseUrl must not contain a user name or password; use apiKey or headers'],
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
    ['2:24: providers.openai.headers has the name "Host", which is set by Sluice'],
  ],
  [
    'providers:\n  openai: { headers: { "a b": x } }',
    ['2:24: providers.openai.headers has the name "a b", which must be the name of a header'],
  ],
  ['providers:\n  openai: { headers: { a: "x\\ny" } }', ['2:27: providers.openai.headers.a must be printable ASCII']],
  [
    'providers:\n  openai: { quirks: { sytemRole: system } }',
    ['2:23: providers.openai.quirks has the unknown key "sytemRole" (did you mean systemRole?)'],
  ],
  [
    'providers:\n  openai: { quirks: { systemRole: user } }',
    ['2:35: providers.openai.quirks.systemRole must be one of system, developer'],
  ],
  ['providers:\n  openai: { enabled: no }', ['2:22: providers.openai.enabled must be true or false, not a string']],
  [
    'models:\n  a:',
    ['2:5: models.a requires endpoints, unless its name is that of a provider and a model: <provider>/<model>'],
  ],
  [
    'models:\n  a: {}',
    ['2:6: models.a requires endpoints, unless its name is that of a provider and a model: <provider>/<model>'],
  ],
  [
    'models:\n  acme/a: { price: { prompt: 1 } }',
    ['2:11: models.acme/a requires endpoints, unless its name is that of a provider and a model: <provider>/<model>'],
  ],
  ['models:\n  a: { endpoints: [] }', ['2:19: models.a.endpoints must be a list of endpoints with at least 1 element']],
  ['models:\n  a: { endpoints: [{ provider: openai }] }', ['2:20: models.a.endpoints[0] requires model']],
  [
    'models:\n  a: { endpoints: [{ provider: opnai, model: x }] }',
    [
      '2:20: models.a.endpoints[0] refers to the provider opnai, which is neither built in nor under providers ' +
        '(did you mean openai?)',
    ],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x, protocol: messages }] }',
    ['2:20: models.a.endpoints[0] sets protocol messages, but openai supports responses, chat.completions, images'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: ../x }] }',
    ["2:47: models.a.endpoints[0].model must not contain empty, '.' or '..' segments"],
  ],
  [
    'models:\n  a b: { endpoints: [{ provider: openai, model: x }] }',
    ['2:3: models has the name "a b", which must be 1 to 256 characters of A-Z a-z 0-9 . _ : @ / + -'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], price: { promt: 1 } }',
    ['2:62: models.a.price has the unknown key "promt" (did you mean prompt?)'],
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
    ['2:74: models.a.price.prompt[1] requires rate'],
  ],
  [
    'models:\n  a: { endpoints: [{ provider: openai, model: x }], ' +
      'price: { prompt: [1, { over: 5, rate: 2 }, { over: 5, rate: 3 }] } }',
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
    ['2:6: models.a has a reasoning budget whose min is above its max'],
  ],
  ['keys: [{ key: short }]', ['1:15: keys[0].key must be 16 to 256 printable ASCII characters without spaces']],
  [
    'keys: [{ key: 0123456789abcdefg }, { key: 0123456789abcdefg }]',
    ['1:36: keys[1] is the same key as an earlier one'],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, models: [] }]',
    ['1:42: keys[0].models must be a list of patterns with at least 1 element'],
  ],
  [
    'keys: [{ key: 0123456789abcdefg, models: ["open ai/*"] }]',
    ['1:43: keys[0].models[0] must be a model name with optional * wildcards'],
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
    ['1:57: keys[0].limitPeriod must be one of day, week, month (did you mean day?)'],
  ],
  ['keys: [{ key: 0123456789abcdefg, limitPeriod: day }]', ['1:8: keys[0] has a limitPeriod, but no limit']],
  [
    'keys: [{ key: 0123456789abcdefg, account: my team }]',
    ['1:43: keys[0].account must be 1 to 100 characters of A-Z a-z 0-9 . _ @ + -, beginning with a letter or digit'],
  ],
  [
    'accountStatus: { refusals: { monitored: 20000 } }',
    ['1:28: accountStatus.refusals has a threshold of monitored (20000) above that of abusive (10000)'],
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
  [
    'keys: [{ key: sk-ss-v1-0123456789abcdef, kind: pay-as-you-go }]',
    ['1:8: keys[0] has the kind pay-as-you-go, but its key begins with sk-ss-v1-, which is for the kind subscription'],
  ],
]

describe('problems', () => {
  for (const [text, problems] of PROBLEMS)
    test(`${JSON.stringify(text)} is refused with line and column`, () =>
      expect(problemsOf(text)).toEqual(problems.map((problem) => `sluice.yaml:${problem}`)))

  test('all problems are reported in the order of the file', () => {
    expect(
      problemsOf('limits: { body: 1 }\nlisten:\n  port: x\n  hots: y').map((problem) => problem.split(' ')[0]),
    ).toEqual(['sluice.yaml:1:17:', 'sluice.yaml:3:9:', 'sluice.yaml:4:3:'])
  })

  test('a problem that is found after reading is reported in the order of the file, too', () => {
    expect(problemsOf('providers:\n  opnai: {}\nlisten:\n  port: x').map((problem) => problem.split(' ')[0])).toEqual([
      'sluice.yaml:2:10:',
      'sluice.yaml:4:9:',
    ])
  })

  test('no problem contains a value from the environment', () => {
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
    const text =
      'models:\n  e: { endpoints: [&e { provider: openai, model: x }] }\n' +
      `  m: &m { endpoints: [${endpoint(300)}] }\n${models}`
    expect(problemsOf(text).join()).toContain('expands to more than 20000 values')
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

  test('at most 50 problems are reported, with the number of the others', () =>
    expect(problemsOf(Array.from({ length: 200 }, (_, i) => `k${i}: 1`).join('\n'))).toHaveLength(51))
})
