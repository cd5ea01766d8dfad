import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { sqlIn } from '../stores.ts'
import { until } from '../transport/raw-server.ts'
import { predictionProvider, Predictions, type Shown } from './predicting.ts'

/** Many predictions with large inputs: queued ones are on disk and not in memory. */

const COUNT = 150
const INPUT_BYTES = 1_000_000
const INPUTS_MIB = (COUNT * INPUT_BYTES) / 2 ** 20

const residentMiB = ({ pid }: GatewayProcess): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024

/** True where all predictions have succeeded: an answer to each question would have its input. */
async function hasSucceeded(data: string): Promise<boolean> {
  const [row] = await sqlIn<{ count: number }>(
    data,
    "SELECT count(*) AS count FROM predictions WHERE status = 'succeeded' AND completed_at IS NOT NULL",
  )
  return row?.count === COUNT
}

test.if(process.platform === 'linux')(
  'many queued predictions use little memory, before and after a restart, and run once',
  async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
    const provider = predictionProvider()
    provider.onMade = (made) => {
      made.status = 'processing'
      Object.assign(made, { input: {}, body: '' })
    }
    const config = `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: free }
providers: { up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none } }
models: { maker/flux: { endpoints: [{ provider: up, model: maker/flux }] } }
`
    const started: GatewayProcess[] = []
    const start = async (): Promise<GatewayProcess> => {
      const one = await startGatewayProcess({ data, config })
      started.push(one)
      return one
    }
    try {
      const first = await start()
      const client = new Predictions(first.url, first.key)
      const before = residentMiB(first)
      const prompt = 'ab cd ef '.repeat(INPUT_BYTES / 9)
      for (let at = 0; at < COUNT; at++) await client.create('maker/flux', { prompt: at + prompt })
      // On a busy machine what was collected is given back a little later.
      await until(() => residentMiB(first) - before < INPUTS_MIB / 1.5)
      first.kill('SIGKILL')
      await first.exited
      const second = await start()
      expect(residentMiB(second) - before).toBeLessThan(INPUTS_MIB / 2)
      for (const made of provider.made) made.status = 'succeeded'
      provider.onMade = (made) => void Object.assign(made, { status: 'succeeded', input: {}, body: '' })
      while (!(await hasSucceeded(data))) await Bun.sleep(100)
      const again = new Predictions(second.url, second.key)
      for (let url: string | null = '/v1/predictions'; url !== null; ) {
        const page = (await (await again.send('GET', url)).json()) as { next: string | null; results: Shown[] }
        expect(new Set(page.results.map(({ status }) => status))).toEqual(new Set(['succeeded']))
        url = page.next?.slice(second.url.length) ?? null
      }
      expect(provider.made.length).toBe(COUNT)
      await second.stop()
    } finally {
      // One that is left behind would ask for its predictions at a port that another test has by then.
      for (const one of started) one.kill('SIGKILL')
      await provider.stop()
      rmSync(data, { recursive: true, force: true })
    }
  },
  120_000,
)
