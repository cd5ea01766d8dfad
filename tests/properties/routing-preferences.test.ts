import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { startGateway, type Gateway } from '../server.ts'
import { CLIENTS, requestIn, send, startUpstreams, type Client } from '../gateway/route-upstreams.ts'
import { runs } from '../runs.ts'
import { assertAsyncProperty } from './assertions.ts'

/** Preferences are promises: an endpoint that does not keep them is never asked, whatever way the request takes. */

setDefaultTimeout(120_000)

type Facts = {
  protocol: Client
  keys: number
  region?: 'eu' | 'us'
  retains?: boolean
  trains?: boolean
  zdr?: true
  quantization?: 'fp8' | 'bf16'
  tag?: 'near' | 'far'
}
/** One endpoint of the model: its facts, the name of its provider, and that of its key. */
type Served = Facts & { provider: string; key: string | undefined }

const maybe = <T>(...values: T[]): fc.Arbitrary<T | undefined> =>
  fc.option(fc.constantFrom(...values), { nil: undefined })

const facts: fc.Arbitrary<Facts> = fc
  .record({
    protocol: fc.constantFrom(...CLIENTS, 'chat.completions' as const, 'chat.completions' as const),
    keys: fc.constantFrom(0, 0, 2),
    region: maybe('eu' as const, 'us' as const),
    retains: maybe(true, false, false),
    trains: maybe(true, false, false),
    zdr: maybe(true as const),
    quantization: maybe('fp8' as const, 'bf16' as const),
    tag: maybe('near' as const, 'far' as const),
  })
  .map(({ retains, zdr, ...rest }) => ({
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    ...(retains === undefined ? {} : { retains }),
    ...(zdr === true && retains !== true ? { zdr } : {}),
  })) as fc.Arbitrary<Facts>

const NAMES = ['p0', 'p1', 'p2', 'p3', 'p4', 'near', 'far', 'p0/k0', 'p1/k1', 'openai']
const names = fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 })
const preferences = fc.record(
  {
    only: names,
    ignore: names,
    order: names,
    allow_fallbacks: fc.boolean(),
    data_collection: fc.constantFrom('allow', 'deny'),
    zdr: fc.boolean(),
    regions: fc.uniqueArray(fc.constantFrom('eu', 'us', 'mars'), { minLength: 1 }),
    quantizations: fc.uniqueArray(fc.constantFrom('fp8', 'bf16', 'unknown'), { minLength: 1 }),
    max_price: fc.record({ prompt: fc.constantFrom(1, 2, 3) }),
  },
  { requiredKeys: [] },
)
type Preferences = typeof preferences extends fc.Arbitrary<infer T> ? T : never

/** `escaped`: names with escapes, which the scan of bytes cannot judge. The long ones are another process's. */
const LANES = ['short', 'streamed', 'escaped', 'long', 'long and escaped'] as const

function keeps(endpoint: Served, wanted: Preferences): boolean {
  const { provider, key, tag, region, retains, trains, zdr, quantization = 'unknown' } = endpoint
  const isNamed = (name: string): boolean => [provider, `${provider}/${key}`, tag].includes(name)
  const isKept = zdr === true ? false : retains
  return (
    wanted.only?.some(isNamed) !== false &&
    wanted.ignore?.some(isNamed) !== true &&
    (wanted.allow_fallbacks !== false || wanted.order?.some(isNamed) !== false) &&
    (wanted.data_collection !== 'deny' || (isKept === false && trains === false)) &&
    (wanted.zdr !== true || isKept === false) &&
    (wanted.regions === undefined || (region !== undefined && wanted.regions.includes(region))) &&
    wanted.quantizations?.includes(quantization) !== false &&
    (wanted.max_price?.prompt ?? 2) >= 2
  )
}

const hasUnknownName = ({ only = [], ignore = [], order = [] }: Preferences, served: readonly Served[]): boolean =>
  [...only, ...ignore, ...order].some(
    (name) => name.includes('/') && !served.some(({ provider, key }) => name === `${provider}/${key}`),
  )

function configOf(all: readonly Facts[], url: string): { text: string; served: Served[] } {
  const entries = all.map(({ protocol, keys, region, retains, trains }, at) => {
    const list = Array.from({ length: keys }, (_, key) => `{ name: k${key}, key: p${at}-k${key} }`)
    const policy = [
      ...(retains === undefined ? [] : [`retains: ${retains}`]),
      ...(trains === undefined ? [] : [`trains: ${trains}`]),
    ]
    return [
      `  p${at}: { protocol: ${protocol}, baseUrl: "${url}/p${at}", dataPolicy: { ${policy.join(', ')} }`,
      ...(keys === 0 ? [] : [`apiKeys: [${list.join(', ')}]`]),
      ...(region === undefined ? [] : [`region: ${region}`]),
    ].join(', ')
  })
  const endpoints = all.map(({ zdr, quantization, tag }, at) =>
    [
      `{ provider: p${at}, model: m${at}`,
      ...(zdr === undefined ? [] : ['zdr: true']),
      ...(quantization === undefined ? [] : [`quantization: ${quantization}`]),
      ...(tag === undefined ? [] : [`tags: [${tag}]`]),
    ].join(', '),
  )
  // The tags exist in every configuration.
  const other = '  other: { endpoints: [{ provider: sandbox, model: chat, tags: [near, far] }] }\n'
  const text =
    `providers:\n${entries.map((entry) => `${entry} }\n`).join('')}` +
    `models:\n${other}  all:\n    endpoints: [${endpoints.map((one) => `${one} }`).join(', ')}]\n` +
    `    price: { prompt: 2, completion: 2 }\n`
  const served = all.flatMap((one, at): Served[] =>
    one.keys === 0
      ? [{ ...one, provider: `p${at}`, key: undefined }]
      : Array.from({ length: one.keys }, (_, key) => ({ ...one, provider: `p${at}`, key: `k${key}` })),
  )
  return { text, served }
}

/** The preferences as headers of any protocol. */
const headersOf = (wanted: Preferences): Record<string, string> =>
  Object.fromEntries(
    Object.entries(wanted).map(([name, value]) => [
      `x-sluice-provider-${name.replaceAll('_', '-')}`,
      name === 'max_price' ? `prompt=${wanted.max_price!.prompt}` : String(value),
    ]),
  )

function bodyOf(client: Client, lane: (typeof LANES)[number], wanted: Preferences | undefined): [string, string] {
  const text = lane.startsWith('long') ? 'word '.repeat(300_000) : 'Hi'
  const { path, body } = requestIn(client, 'all', { stream: lane === 'streamed', text })
  const json = JSON.stringify(wanted === undefined ? body : { ...body, provider: wanted })
  return [path, lane.endsWith('escaped') ? json.replace(/"([a-z])([a-z]+)":/, escapedName) : json]
}

const escapedName = (_: string, first: string, rest: string): string =>
  `"\\u00${first.charCodeAt(0).toString(16)}${rest}":`

const gateways: { gateway: Gateway; stop(): Promise<void> }[] = []
afterAll(async () => {
  for (const { gateway, stop } of gateways) {
    await gateway.stop()
    await stop()
  }
})

describe('an endpoint that does not keep the preferences of a request is never asked', () => {
  const providers = fc.array(facts, { minLength: 5, maxLength: 5 })
  for (const [at, all] of fc.sample(providers, { numRuns: runs(3, 20), seed: 7 }).entries())
    test(`configuration ${at}`, async () => {
      // Half of the providers fail, so that others are asked.
      let answers = 0
      const upstreams = startUpstreams(({ provider }) =>
        (answers++ + Number(provider.slice(1))) % 2 === 0
          ? Response.json({ error: { message: 'down' } }, { status: 503 })
          : undefined,
      )
      const { text, served } = configOf(all, upstreams.url)
      const gateway = await startGateway({ config: text })
      gateways.push({ gateway, stop: upstreams.stop })
      const ask = async (
        client: Client,
        lane: (typeof LANES)[number],
        wanted: Preferences,
        inBody: boolean,
      ): Promise<void> => {
        upstreams.calls.length = 0
        const hasMembers = inBody && (client === 'chat.completions' || client === 'responses')
        const [path, body] = bodyOf(client, lane, hasMembers ? wanted : undefined)
        const answer = await send(gateway, path, body, hasMembers ? {} : headersOf(wanted))
        const said = await answer.text()
        const allowed = served.filter((endpoint) => keeps(endpoint, wanted))
        const names = new Set(allowed.map(({ provider, key }) => (key === undefined ? provider : `${provider}-${key}`)))
        for (const call of upstreams.calls) expect(names).toContain(call.key === '' ? call.provider : call.key)
        const refusal = hasUnknownName(wanted, served) ? 400 : allowed.length === 0 ? 404 : undefined
        expect([upstreams.calls.length > 0, said]).toEqual([refusal === undefined, said])
        if (refusal !== undefined) expect([answer.status, said]).toEqual([refusal, said])
      }
      const property = fc.asyncProperty(
        fc.constantFrom(...CLIENTS),
        fc.constantFrom(...LANES),
        preferences,
        fc.boolean(),
        ask,
      )
      await assertAsyncProperty(property, 0.4)
    })
})
