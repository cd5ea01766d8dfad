import { afterAll, beforeAll, describe, expect } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway, type Gateway } from '../server.ts'
import { once } from '../stores.ts'
import { runSluice } from './run.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
}, 60_000)
afterAll(() => gateway.stop())

const linkFor = async (data: string, ...options: string[]): Promise<string> =>
  (await runSluice(['console', '--data', data, ...options])).out

describe('commands that ask the running server', () => {
  once('find it by the data folder, unless options name another', async () => {
    const { data, createdKeys } = gateway
    expect(await runSluice(['health', '--data', data])).toMatchObject({ code: 0, out: 'ok\n' })
    const refused = await runSluice(['route', 'sandbox/chat', '--data', data, '--key', createdKeys.management!])
    expect(refused).toEqual({ code: 1, out: '', err: expect.stringContaining('viewer of the installation') })
    const { code, err: fault } = await runSluice(['health', '--data', data, '--port', '9'])
    expect([code, fault]).toEqual([1, expect.stringContaining('no server answers at http://127.0.0.1:9/readyz')])
  })
})

describe('sluice console', () => {
  once('prints a link to the server that runs, wherever that listens', async () => {
    expect(await linkFor(gateway.data)).toStartWith(`console  ${gateway.url}/console/enter#`)
    expect(await linkFor(gateway.data, '--port', '4999')).toStartWith('console  http://127.0.0.1:4999/console/enter#')
  })

  once('prints the configured address where no server runs', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-cli-console-'))
    writeFileSync(join(data, 'server.url'), '1 1 http://127.0.0.1:9999\n')
    expect(await linkFor(data)).toStartWith('console  http://127.0.0.1:4310/console/enter#')
    rmSync(data, { recursive: true })
  })
})
