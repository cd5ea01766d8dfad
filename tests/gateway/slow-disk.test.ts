import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Durability } from '../../src/config/terms.ts'
import { CAN_PRELOAD, preload } from '../preload.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { type RawServer, until } from '../transport/raw-server.ts'
import { ask } from './asking.ts'
import { scriptedProvider } from './scripted.ts'

/** A gateway on a disk whose flushes are slow. */

const FLUSH_MS = 500

/** Each flush is logged when it begins, and slow while a file exists. None ends while another file does. */
const SLOW = ({ slow, held, log }: Paths): string => `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#define SLOW(name) int name(int file) { \
  if (access("${slow}", F_OK) == 0) { \
    int log = open("${log}", O_WRONLY | O_CREAT | O_APPEND, 0600); \
    write(log, ".", 1); close(log); usleep(${FLUSH_MS * 1000}); \
    while (access("${held}", F_OK) == 0) usleep(10000); } \
  return ((int (*)(int))dlsym(RTLD_NEXT, #name))(file); }
SLOW(fsync)
SLOW(fdatasync)
`

type Paths = { slow: string; held: string; log: string }

const folder = mkdtempSync(join(tmpdir(), 'sluice-slow-'))
const paths = { slow: join(folder, 'slow'), held: join(folder, 'held'), log: join(folder, 'log') }
let env: { LD_PRELOAD: string }
let provider: RawServer
beforeAll(() => {
  provider = scriptedProvider()
  if (CAN_PRELOAD) env = preload(folder, SLOW(paths))
})
afterAll(() => {
  provider.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Flushes that have begun since the disk became slow. */
const flushes = (): number => (existsSync(paths.log) ? readFileSync(paths.log).length : 0)

const removePaths = (): void => Object.values(paths).forEach((file) => rmSync(file, { force: true }))

/** Starts a gateway, and makes its disk slow once a first generation is stored. */
async function onSlowDisk(
  durability: Durability,
  run: (client: Client, stored: string) => Promise<void>,
): Promise<void> {
  const up = `{ protocol: chat.completions, baseUrl: "${provider.url}/v1", apiKey: none, unlisted: true }`
  const config = `
store: { durability: ${durability} }
billing: { unpriced: free, delay: 0s }
providers: { up: ${up} }
`
  const gateway = await startGatewayProcess({ config, env })
  const client = new Client(gateway)
  try {
    const first = await client.generate()
    writeFileSync(paths.slow, '')
    await run(client, first)
  } finally {
    removePaths()
    await gateway.stop()
  }
}

class Client {
  readonly gateway: GatewayProcess

  constructor(gateway: GatewayProcess) {
    this.gateway = gateway
  }

  /** Returns the id once the whole response is here. */
  async generate(stream = false): Promise<string> {
    const { url, key } = this.gateway
    const response = await ask({ url, key, protocol: 'chat.completions', model: 'up/metered', stream, text: 'hi' })
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
    return response.headers.get('x-generation-id')!
  }

  async get(path: string): Promise<Response> {
    const { url, key } = this.gateway
    const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } })
    await response.arrayBuffer()
    return response
  }

  /** Resolves when the provider was asked so often and no generation is open: their responses may still be. */
  async allEnded(generations: number): Promise<void> {
    for (;;) {
      const metrics = await (await fetch(`${this.gateway.url}/metrics`)).text()
      const open = [...metrics.matchAll(/^sluice_open_generations\{.*\} (\d+)$/gm)].map(([, count]) => Number(count))
      if (provider.requests.length === generations && Bun.deepEquals(open, [0, 0])) return
      await Bun.sleep(20)
    }
  }
}

describe.skipIf(!CAN_PRELOAD)('a disk that flushes slowly', () => {
  test('during a flush other requests are served, and all that end meanwhile share the next flush', async () => {
    await onSlowDisk('power', async (client, stored) => {
      const ended: string[] = []
      writeFileSync(paths.held, '')
      const generation = client.generate().then((id) => (ended.push('first'), id))
      await until(() => flushes() === 1)
      const asked = provider.requests.length + 4
      const others = [false, true, false, true].map((stream) => client.generate(stream).then(() => ended.push('other')))
      for (const path of ['/v1/models', '/v1/management/payg/balance', `/v1/management/generation?id=${stored}`])
        expect((await client.get(path)).status).toBe(200)
      await client.allEnded(asked)
      expect(ended).toEqual([])
      rmSync(paths.held)
      await generation
      expect(ended).toEqual(['first'])
      await Promise.all(others)
      // A write that no response waits for may have a flush of its own.
      expect(flushes()).toBeLessThanOrEqual(3)
    })
  }, 60_000)

  test('with durability process generations wait for no flush, and one follows by itself', async () => {
    await onSlowDisk('process', async (client) => {
      writeFileSync(paths.held, '')
      await client.generate()
      await until(() => flushes() === 1)
      await Promise.all([client.generate(), client.generate(true)])
      await client.generate()
      expect(flushes()).toBe(1)
      rmSync(paths.held)
      await until(() => flushes() === 2)
    })
  }, 60_000)

  test('with durability process what a generation leaves is flushed at the stop', () => {
    const script = join(import.meta.dir, '../store/stopper.ts')
    const { stdout } = Bun.spawnSync([process.execPath, script, join(folder, 'data'), paths.slow], {
      env: { ...process.env, ...env },
    })
    expect([String(stdout), flushes()]).toEqual(['1\n', 1])
    removePaths()
  })

  test('with durability process a prediction is confirmed after a flush', async () => {
    await onSlowDisk('process', async ({ gateway: { url, key } }) => {
      writeFileSync(paths.held, '')
      let isConfirmed = false
      const confirming = fetch(`${url}/v1/predictions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: 'sandbox/chat', input: { prompt: 'hi' } }),
      }).finally(() => {
        isConfirmed = true
      })
      await until(() => flushes() > 0)
      await Bun.sleep(300)
      expect(isConfirmed).toBe(false)
      rmSync(paths.held)
      expect((await confirming).ok).toBe(true)
    })
  }, 60_000)
})
