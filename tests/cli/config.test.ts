import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { readConfig } from '../../src/config/load.ts'
import { type Browser, ownerOf } from '../management/browser.ts'
import { type GatewayProcess, startGatewayProcess } from '../server.ts'
import { type Ran, runSluice } from './run.ts'

/** `sluice config show` and `export`, beside a server with settings of its console. */

const CONFIG = `
timeouts:
  idle: "\${IDLE:-40s}"
  total: 2h
providers:
  fixed: { protocol: chat.completions, baseUrl: 'https://fixed.example/v1', apiKey: canary-file-1 }
  named: { protocol: chat.completions, baseUrl: 'https://fixed.example/v1', apiKey: "\${NAMED_KEY}" }
keys:
  - { key: canary-fixed-key-2222, name: fixed }
`
const ENV = { NAMED_KEY: 'canary-named-3', OPENAI_API_KEY: 'canary-openai-4' }
let gateway: GatewayProcess
let owner: Browser
beforeAll(async () => {
  gateway = await startGatewayProcess({ config: CONFIG, env: ENV })
  owner = await ownerOf(gateway)
  const acme = { protocol: 'messages', baseUrl: 'https://1.1.1.1', apiKey: 'canary-acme-5', headers: { A: 'canary-6' } }
  const any = { 'if-match': '*' }
  const answers = [
    await owner.ask('PATCH', '/settings', { strict: true, timeouts: { total: null, drain: '7s' } }, any),
    await owner.ask('PUT', '/providers/acme', acme),
    await owner.ask('PUT', '/providers/groq/key', { key: 'canary-groq-7' }),
    await owner.ask('PUT', '/models/big', { endpoints: [{ provider: 'acme', model: 'm' }] }),
  ]
  expect(answers.map(({ status, text }) => [status, status < 300 ? '' : text])).toEqual([
    [200, ''],
    [200, ''],
    [204, ''],
    [200, ''],
  ])
}, 60_000)
afterAll(() => gateway?.stop())

const sluice = (...words: string[]): Promise<Ran> =>
  runSluice([...words, '--config', join(gateway.data, 'test-config.yaml'), '--data', gateway.data], {
    env: { ...ENV, SLUICE_HOST: '127.0.0.2' },
  })

type Shown = { settings: { path: string; value: unknown; origin: string }[] }

test('each setting is shown with where it comes from, and no secret', async () => {
  const { out, err, code } = await sluice('config', 'show', '--origin', '--json', '--port', '99')
  expect([code, err]).toEqual([0, ''])
  const shown = new Map((JSON.parse(out) as Shown).settings.map(({ path, ...more }) => [path, Object.values(more)]))
  const byOwner = expect.stringMatching(/^console: Owner, 20\d\d-\d\d-\d\dT[\d:.]+Z$/)
  const expected = {
    'listen.port': [99, '--port'],
    'listen.host': ['127.0.0.2', 'SLUICE_HOST'],
    data: [gateway.data, '--data'],
    'timeouts.idle': ['40s', 'test-config.yaml:3 (IDLE)'],
    'timeouts.total': ['2h', 'test-config.yaml:4'],
    'timeouts.drain': ['7s', byOwner],
    'timeouts.connect': ['10s', 'default'],
    strict: [true, byOwner],
    'billing.startingCredit': ['100', 'default'],
    'retention.records': ['forever', 'default'],
    'providers.fixed.baseUrl': ['https://fixed.example/v1', 'test-config.yaml:6'],
    'providers.fixed.apiKey': ['(hidden)', 'test-config.yaml:6'],
    'providers.named.apiKey': ['${NAMED_KEY}', 'test-config.yaml:7'],
    'keys[0].key': ['(hidden)', 'test-config.yaml:9'],
    'keys[0].name': ['fixed', 'test-config.yaml:9'],
    'providers.acme.baseUrl': ['https://1.1.1.1', byOwner],
    'providers.acme.headers.A': ['(hidden)', byOwner],
    'providers.groq.apiKey': ['(hidden)', byOwner],
    'models.big.endpoints[0].provider': ['acme', byOwner],
    'providers.openai.apiKey': ['(hidden)', 'OPENAI_API_KEY'],
  }
  expect(Object.fromEntries(Object.keys(expected).map((path) => [path, shown.get(path)]))).toEqual(expected)
  expect(out).not.toContain('canary')
}, 30_000)

test('config show prints a table, with the origins on demand', async () => {
  const [plain, full] = await Promise.all([sluice('config', 'show'), sluice('config', 'show', '--origin')])
  expect(plain.out).toMatch(/^strict +true$/m)
  expect(full.out).toMatch(/^strict +true +console: Owner, \S+$/m)
  expect(full.out).toMatch(/^listen\.host +127\.0\.0\.2 +SLUICE_HOST$/m)
  expect(plain.out + full.out).not.toContain('canary')
}, 30_000)

test('file and console are exported as one file, as the server does', async () => {
  const { out, code } = await sluice('config', 'export')
  const headers = { cookie: owner.cookie, 'sec-fetch-site': 'same-origin' }
  const served = await fetch(`${gateway.url}/v1/management/settings/export.yaml`, { headers })
  expect([code, out]).toEqual([0, await served.text()])
  const variables = { ...ENV, GROQ_API_KEY: 'x', ACME_API_KEY: 'x', ACME_HEADER_A: 'x', FIXED_API_KEY: 'x' }
  const more = { SLUICE_FIXED_KEY_1: 'long-enough-key-1', SLUICE_STORE_URL: 'postgres://a:b@127.0.0.1/c' }
  const read = readConfig(out, 'sluice.yaml', { ...variables, ...more })
  expect([read.strict, read.timeouts.drainMs, read.models.has('big')]).toEqual([true, 7_000, true])
  expect(out).not.toContain('canary')
}, 30_000)

test('a folder without a database shows file and defaults, and stays as it is', async () => {
  const folder = join(gateway.data, 'absent')
  await Bun.write(join(gateway.data, 'sluice.yaml'), 'files: { store: s3://bucket/a/b }\n')
  const { code, out } = await runSluice(['config', 'show', '--origin', '--data', folder], { cwd: gateway.data })
  expect(out).toMatch(/^strict +false +default$/m)
  expect(out).toMatch(/^files\.store +s3:\/\/bucket\/a\/b +sluice\.yaml:1$/m)
  expect([code, await Bun.file(join(folder, 'sluice.sqlite')).exists()]).toEqual([0, false])
}, 30_000)
