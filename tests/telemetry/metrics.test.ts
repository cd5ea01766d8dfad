import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'node:http'
import { REQUEST_CODES } from '../../src/error.ts'
import { ask } from '../gateway/asking.ts'
import { startGateway, startGatewayProcess, type Gateway } from '../server.ts'
import { fault, startS3 } from '../store/s3-server.ts'
import { until } from '../transport/raw-server.ts'

/** Prometheus' view of a server: what it counts, who may see it, and that what is deployed beside it fits. */

const answer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
}

/** A provider that fails for prompts that say so. */
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const isFailing = (await request.text()).includes('fail')
    return isFailing ? Response.json({ error: { message: 'no' } }, { status: 400 }) : Response.json(answer)
  },
})

const CONFIG = `
billing: { unpriced: free }
providers: { acme: { protocol: chat.completions, baseUrl: 'http://127.0.0.1:${provider.port}/v1', apiKey: k } }
models: { acme/large: { endpoints: [{ provider: acme, model: large }], price: { prompt: 1, completion: 2 } } }
`

const s3 = startS3()

let gateway: Gateway
beforeAll(async () => {
  const config = `files: { store: 's3://files/p' }\ntimeouts: { clientLeft: 0s }\n${CONFIG}`
  gateway = await startGateway({ config, env: s3.env })
})
afterAll(async () => {
  await gateway.stop()
  await s3.stop()
  await provider.stop(true)
})

const generate = async (text: string, model = 'acme/large', stream = false): Promise<number> => {
  const { url, key } = gateway
  const response = await ask({ url, key, protocol: 'chat.completions', model, stream, text })
  await response.text()
  return response.status
}

/** Series -> value. */
async function scrape(url = gateway.url): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`)
  expect(response.headers.get('content-type')).toStartWith('text/plain; version=0.0.4')
  return valuesIn(await response.text())
}

const valuesIn = (text: string): Map<string, number> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )

describe('the metrics', () => {
  test('count requests, generations, attempts, tokens, costs and times', async () => {
    for (const text of ['a', 'b', 'please fail']) await generate(text)
    expect(await generate('a', 'acme/unknown')).toBe(404)
    expect(await generate('a', 'sandbox/chat', true)).toBe(200)
    const values = await scrape()
    const large = 'model="acme/large",provider="acme"'
    const sandbox = 'model="sandbox/chat",provider="sandbox"'
    expect(Object.fromEntries(values)).toMatchObject({
      'sluice_requests_total{route="chat.completions",status="200"}': 3,
      'sluice_requests_total{route="chat.completions",status="404"}': 1,
      'sluice_refusals_total{code="model_not_found"}': 1,
      [`sluice_generations_total{${large},outcome="completed"}`]: 2,
      [`sluice_generations_total{${large},outcome="failed"}`]: 1,
      [`sluice_attempts_total{${large},outcome="served"}`]: 2,
      [`sluice_attempts_total{${large},outcome="invalid_request"}`]: 1,
      [`sluice_generation_failures_total{${large},code="invalid_request"}`]: 1,
      [`sluice_tokens_total{${large},bucket="input"}`]: 14,
      [`sluice_tokens_total{${large},bucket="output"}`]: 10,
      [`sluice_cost_usd_total{${large}}`]: 0.000034,
      [`sluice_generation_duration_seconds_count{${large}}`]: 3,
      [`sluice_time_to_first_token_seconds_count{${large}}`]: 0,
      [`sluice_time_to_first_token_seconds_count{${sandbox}}`]: 1,
      [`sluice_time_to_first_token_seconds_bucket{${sandbox},le="+Inf"}`]: 1,
      [`sluice_input_tokens_bucket{${large},le="4"}`]: 0,
      [`sluice_input_tokens_bucket{${large},le="16"}`]: 2,
      [`sluice_output_tokens_sum{${large}}`]: 10,
      'sluice_open_generations{streamed="true"}': 0,
      'sluice_endpoints{breaker="closed"}': 2,
      'sluice_endpoints{breaker="open"}': 0,
      sluice_ledger_writable: 1,
    })
    expect(values.get('sluice_commit_duration_seconds_count{step="flush"}')).toBeGreaterThan(0)
    expect(values.get('process_resident_memory_bytes')).toBeGreaterThan(1e6)
  })

  test('show a stream that is open, and the delay of the event loop', async () => {
    const { url, key } = gateway
    const text = '[[pace: 50ms]] [[reply: one two three four five six seven eight]]'
    const response = await ask({ url, key, protocol: 'messages', model: 'sandbox/chat', stream: true, text })
    const streams = async (): Promise<number | undefined> =>
      (await scrape()).get('sluice_open_generations{streamed="true"}')
    expect(await streams()).toBe(1)
    await response.text()
    expect(await streams()).toBe(0)
    let delays = 0
    for (let scrapes = 0; delays === 0 && scrapes < 500; scrapes++) {
      await Bun.sleep(20)
      delays = (await scrape()).get('sluice_event_loop_delay_seconds_count')!
    }
    expect(delays).toBeGreaterThan(0)
  })

  test('show of a large request whose stream has begun the bytes of its body, until the client leaves', async () => {
    const { url, key } = gateway
    const text = `[[hang-after: 1]] ${'tide '.repeat(20_000)}`
    const memory = async (): Promise<number> => (await scrape()).get('sluice_request_memory_bytes')!
    for (const protocol of ['chat.completions', 'messages'] as const) {
      const response = await ask({ url, key, protocol, model: 'sandbox/chat', stream: true, text })
      expect((await memory()) / text.length).toBeCloseTo(1, 1)
      await response.body!.cancel()
      while ((await memory()) > 0) await Bun.sleep(5)
    }
  })
})

describe('the bucket of files', () => {
  const owner = `sk-mg-v1-${'0123456789abcdef'.repeat(3)}`
  let cloud: Gateway
  beforeAll(async () => {
    const config = `files: { store: 's3://files/q' }\n${CONFIG}`
    cloud = await startGateway({ config, env: { ...s3.env, SLUICE_MANAGEMENT_KEY: owner } })
  })
  afterAll(() => cloud.stop())

  const upload = async (): Promise<number> => {
    const body = new FormData()
    body.set('file', new File(['The tide turns.'], 'tide.txt'))
    const headers = { authorization: `Bearer ${cloud.key}` }
    const response = await fetch(`${cloud.url}/v1/files`, { method: 'POST', headers, body })
    await response.text()
    return response.status
  }
  const readiness = async (): Promise<[number, string]> => {
    const response = await fetch(`${cloud.url}/readyz`)
    return [response.status, await response.text()]
  }
  const generated = async (): Promise<number> => {
    const { url, key } = cloud
    const asked = { url, key, protocol: 'chat.completions', model: 'acme/large', stream: false, text: 'a' } as const
    return (await ask(asked)).status
  }
  const problems = async (): Promise<string[]> => {
    const headers = { authorization: `Bearer ${owner}` }
    const response = await fetch(`${cloud.url}/v1/management/system`, { headers })
    return ((await response.json()) as { problems: string[] }).problems.filter((one) => one.includes('bucket'))
  }

  test('is shown as away, while generations go on, until it works again', async () => {
    // It is listed when it is opened, and for what ended processes left.
    await until(() => s3.requests.filter(({ method }) => method === 'GET').length === 4)
    expect(await upload()).toBe(200)
    expect([await readiness(), (await scrape(cloud.url)).get('sluice_bucket_up')]).toEqual([[200, 'ok\n'], 1])
    s3.failure = () => fault(503, 'SlowDown')
    expect(await upload()).toBe(503)
    expect([await readiness(), (await scrape(cloud.url)).get('sluice_bucket_up'), await problems()]).toEqual([
      [200, 'degraded: the bucket of files cannot be used (SlowDown); refused: what needs files\n'],
      0,
      ['The bucket of files cannot be used (SlowDown): what needs files is refused.'],
    ])
    expect(await generated()).toBe(200)
    s3.failure = undefined
    expect(await upload()).toBe(200)
    expect([await readiness(), await problems()]).toEqual([[200, 'ok\n'], []])
    const values = await scrape(cloud.url)
    const requests = (operation: string, outcome: string): number | undefined =>
      values.get(`sluice_bucket_requests_total{operation="${operation}",outcome="${outcome}"}`)
    expect(values.get('sluice_bucket_up')).toBe(1)
    expect([requests('list', 'done'), requests('write', 'done'), requests('write', 'failed')]).toEqual([2, 4, 3])
  })

  test('has no metrics where there is none', async () => {
    const folder = await startGateway({ config: CONFIG })
    try {
      const names = [...(await scrape(folder.url)).keys()]
      expect(names.filter((name) => name.startsWith('sluice_bucket'))).toEqual([])
    } finally {
      await folder.stop()
    }
  })
})

describe('the metrics beside the API', () => {
  const status = async (headers: Record<string, string>, url = gateway.url): Promise<number> =>
    (await fetch(`${url}/metrics`, { headers })).status

  test('take no key of a program on the same machine', async () => {
    expect(await status({})).toBe(200)
  })

  test.each(['x-forwarded-for', 'forwarded', 'via'])('take a key where a proxy passed them on (%s)', async (name) => {
    expect(await status({ [name]: '203.0.113.7' })).toBe(401)
  })

  test('take a key where the host is not this machine', async () => {
    const { port } = new URL(gateway.url)
    const got = await new Promise<number | undefined>((resolve) => {
      request({ port, host: '127.0.0.1', path: '/metrics', headers: { host: 'llm.example.com' } }, (response) => {
        response.resume()
        resolve(response.statusCode)
      }).end()
    })
    expect(got).toBe(401)
  })

  test('are refused to the key of an account', async () => {
    const forwarded = { via: 'proxy' }
    const bearer = (kind: string) => ({ ...forwarded, authorization: `Bearer ${gateway.createdKeys[kind]}` })
    expect(await status(bearer('management'))).toBe(403)
    expect(await status(bearer('pay-as-you-go'))).toBe(403)
  })

  test('take a key where the server has a public URL, and are absent where they are switched off', async () => {
    const config = `listen: { publicUrl: 'https://llm.example.com' }\n${CONFIG}`
    const published = await startGateway({ config })
    const silent = await startGateway({ config: `metrics: { enabled: false }\n${CONFIG}` })
    try {
      expect(await status({}, published.url)).toBe(401)
      expect(await status({}, silent.url)).toBe(404)
    } finally {
      await published.stop()
      await silent.stop()
    }
  })
})

test('a port of their own has the metrics alone, until the server stops', async () => {
  const server = await startGatewayProcess({ config: `metrics: { port: 0 }\n${CONFIG}` })
  try {
    await until(() => server.output().stderr.includes('metrics on '))
    const url = /metrics on (\S+)\/metrics/.exec(server.output().stderr)![1]!
    expect(url).not.toBe(server.url)
    expect((await scrape(url)).get('sluice_ledger_writable')).toBe(1)
    for (const path of ['/', '/v1/models', '/livez']) expect((await fetch(url + path)).status).toBe(404)
    const head = await fetch(`${url}/metrics`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    const posted = await fetch(`${url}/metrics`, { method: 'POST' })
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    server.kill('SIGTERM')
    expect(await server.exited).toBe(0)
    expect(fetch(`${url}/metrics`)).rejects.toThrow()
  } finally {
    await server.stop()
  }
})

describe('the files for Prometheus and Grafana', () => {
  const deployed = (name: string): string => readFileSync(join(import.meta.dir, '../../deploy', name), 'utf8')

  test.each(['prometheus-rules.yaml', 'grafana-dashboard.json'])('every metric of %s exists', async (name) => {
    await generate('a')
    const known = new Set([...(await scrape()).keys()].map((series) => series.split('{')[0]))
    const used = new Set(deployed(name).match(/\b(?:sluice|process)_\w+/g))
    expect(used.size).toBeGreaterThan(8)
    expect([...used].filter((metric) => !known.has(metric))).toEqual([])
  })

  test('each alert leaves out failures of other causes', () => {
    const { groups } = Bun.YAML.parse(deployed('prometheus-rules.yaml')) as {
      groups: { rules: { alert: string; expr: string }[] }[]
    }
    const rules = new Map(groups.flatMap(({ rules }) => rules).map(({ alert, expr }) => [alert, expr]))
    // A request that is wrong is no failure of its provider, and an overloaded provider is no failure of this server.
    const wrong = [...REQUEST_CODES].join('|')
    expect(rules.get('SluiceProviderFailing')).toContain(`outcome!~"served|${wrong}"`)
    expect(rules.get('SluiceGenerationsFailing')).toContain(`sluice_generation_failures_total{code!~"${wrong}"}`)
    expect(rules.get('SluiceOverloaded')).toContain('sluice_attempts_total{outcome="overloaded"}')
  })

  test('the page lists every metric', async () => {
    const page = readFileSync(join(import.meta.dir, '../../docs/monitoring.md'), 'utf8')
    const metrics = (await (await fetch(`${gateway.url}/metrics`)).text()).matchAll(/^# TYPE (\S+)/gm)
    expect([...metrics].map(([, name]) => name).filter((name) => !page.includes(`\`${name}\``))).toEqual([])
  })

  test.skipIf(Bun.which('promtool') === null)(
    'promtool accepts the metrics, the rules and the configuration',
    async () => {
      const folder = join(import.meta.dir, '../../deploy')
      const text = await (await fetch(`${gateway.url}/metrics`)).text()
      const check = (stdin: string | undefined, ...args: string[]): string => {
        const { exitCode, stderr, stdout } = Bun.spawnSync(['promtool', 'check', ...args], {
          cwd: folder,
          stdin: stdin === undefined ? 'ignore' : Buffer.from(stdin),
        })
        return exitCode === 0 ? 'accepted' : `${stdout}${stderr}`
      }
      expect(check(text, 'metrics')).toBe('accepted')
      expect(check(undefined, 'rules', 'prometheus-rules.yaml')).toBe('accepted')
      expect(check(undefined, 'config', 'prometheus.yaml')).toBe('accepted')
    },
  )
})
