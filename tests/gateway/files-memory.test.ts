import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startGatewayProcess } from '../server.ts'
import { newPostgresFolder } from '../stores.ts'
import { config, keyOf, MIB, send } from './file-gateway.ts'

describe('memory', () => {
  const rssOf = (pid: number): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

  /** The most by which the memory of a server grows, in MiB, while one client uploads a file and another reads it. */
  async function growth(mebibytes: number, framing: string, data?: string): Promise<number> {
    const big = await startGatewayProcess({
      ...(data === undefined ? {} : { data }),
      config: config()
        .replace(', store: folder', data === undefined ? ', store: folder' : '')
        .replace('file: 1MiB', 'file: 1GiB')
        .replace('quota: 3MiB', 'quota: 2GiB')
        .concat('store: { quotaWithoutCredit: 2GiB }\n'),
    })
    try {
      await send('GET', '/v1/files', { url: big.url })
      const before = rssOf(big.pid)
      let most = before
      const timer = setInterval(() => {
        most = Math.max(most, rssOf(big.pid))
      }, 10)
      const { hostname, port } = new URL(big.url)
      const client = Bun.spawn(
        [
          process.execPath,
          join(import.meta.dir, 'uploader.ts'),
          hostname,
          port,
          keyOf('mine'),
          String(mebibytes),
          framing,
        ],
        { stdout: 'pipe', stderr: 'inherit' },
      )
      const answer = await new Response(client.stdout).text()
      expect(answer).toContain(`"bytes":${mebibytes * MIB}`)
      const id = /"id":"(file-\w+)"/.exec(answer)?.[1]
      const content = await fetch(`${big.url}/v1/files/${id}/content`, {
        headers: { authorization: `Bearer ${keyOf('mine')}` },
      })
      let read = 0
      for await (const piece of content.body!) read += piece.length
      expect(read).toBe(mebibytes * MIB)
      clearInterval(timer)
      return most - before
    } finally {
      await big.stop()
    }
  }

  const isLinux = process.platform === 'linux'
  test.skipIf(!isLinux).each([
    [64, 'length'],
    [240, 'chunked'],
  ])(
    'memory grows by less than 50 MiB during an upload of %i MiB, %s',
    async (mebibytes, framing) => {
      expect(await growth(mebibytes, framing)).toBeLessThan(50)
    },
    60_000,
  )

  test.skipIf(!isLinux)(
    'memory grows by less than 200 MiB during an upload of 256 MiB into PostgreSQL',
    async () => {
      const data = newPostgresFolder()
      try {
        expect(await growth(256, 'chunked', data)).toBeLessThan(200)
        expect(existsSync(join(data, 'files'))).toBe(false)
      } finally {
        rmSync(data, { recursive: true, force: true })
      }
    },
    120_000,
  )
})
