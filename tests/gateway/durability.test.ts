import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { CAN_PRELOAD, preload } from '../preload.ts'
import { program } from '../program.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { SmallDisk } from '../small-disk.ts'
import { until } from '../transport/raw-server.ts'
import { ask, ENDED, failureOf, PROTOCOLS } from './asking.ts'
import { BILL, gatedConfig, gatedProvider, type Gated } from './gated.ts'
import { storeIn } from '../stores.ts'

/** A gateway whose disk is full or fails, and its recovery. */

/** Each pair of protocols, translated or passed through, streamed and not. */
const WAYS = PROTOCOLS.flatMap((protocol) =>
  PROTOCOLS.flatMap((provider) => [true, false].map((stream) => ({ protocol, model: `by/${provider}`, stream }))),
)

/** Without a reserve: a disk that is full to the last byte. */
const configFor = (provider: Gated): string => `store: { reserve: 0B }\n${gatedConfig({ by: provider })}`

/** A server takes these on its disk before it writes anything: most are the memory that connections share. */
const START_BYTES = 40 * 1024

/** The refusal in each protocol. The Anthropic SDK retries on 529. */
const REFUSED: Record<ConversationName, [number, string]> = {
  'chat.completions': [503, 'server_error:store_unavailable'],
  responses: [503, 'server_error:store_unavailable'],
  messages: [529, 'error:overloaded_error'],
  generateContent: [503, '503:UNAVAILABLE'],
}

const disk = await SmallDisk.open(6)
let provider: Gated
beforeAll(() => {
  provider = gatedProvider()
})
afterAll(async () => {
  await provider.stop()
  await disk?.close()
})

/** The records, open generations and credit on the disk. */
async function recordsOn(
  disk: SmallDisk,
): Promise<{ records: GenerationRecord[]; open: number; credit: bigint | undefined }> {
  const store = await storeIn(disk.copy())
  try {
    const { balances } = await store.ledger.state()
    return {
      records: await store.ledger.generations(undefined, 1_000),
      open: (await store.ledger.openGenerations()).length,
      credit: balances.find(({ kind }) => kind === 'credit')?.balance,
    }
  } finally {
    await store.close()
  }
}

const unprefixed = (id: string): string => id.replace(/^.*[-_]/, '')

type Answer = { id: string; text: string; response: Response }

/** Starts one generation for each of WAYS. Returns their future answers. */
async function beginAll({ url, key }: GatewayProcess): Promise<Promise<Answer>[]> {
  const before = provider.begun
  const answers = WAYS.map(async (way) => {
    const response = await ask({ url, key, ...way })
    return {
      response,
      id: response.headers.get('x-generation-id') ?? '',
      text: way.stream ? await response.text() : '',
    }
  })
  await until(() => provider.begun === before + WAYS.length)
  return answers
}

async function resumed({ url, key }: GatewayProcess): Promise<void> {
  const [protocol, model] = ['chat.completions', 'by/chat.completions'] as const
  for (let tries = 0; tries < 100; tries++) {
    const { status } = await ask({ url, key, protocol, model, stream: false })
    if (status === 200) return
    await Bun.sleep(50)
  }
  throw new Error('the gateway did not recover')
}

describe.skipIf(disk === undefined)('a full disk', () => {
  const small = disk!

  test('on a full disk requests fail, no record is lost, and requests succeed again with free space', async () => {
    const gateway = await startGatewayProcess({ disk: small, config: configFor(provider) })
    const { url, key } = gateway
    try {
      provider.open()
      const [first] = await Promise.all(
        PROTOCOLS.map((protocol) => ask({ url, key, protocol, model: 'by/messages', stream: false })),
      )
      provider.shut()
      const answers = await beginAll(gateway)
      small.fill()
      provider.open()
      for (const [at, answer] of answers.entries()) {
        const { protocol, stream } = WAYS[at]!
        const { response, text } = await answer
        if (stream) {
          expect([protocol, response.status, text]).toEqual([
            protocol,
            200,
            expect.stringMatching(ENDED[protocol].failed),
          ])
          expect(text).not.toMatch(ENDED[protocol].whole)
          expect(text).toContain('its disk is full')
        } else {
          const { status, code, headers, message } = await failureOf(response, protocol)
          expect([protocol, status, code, headers.get('retry-after'), headers.get('x-should-retry')]).toEqual([
            protocol,
            ...REFUSED[protocol],
            '5',
            'true',
          ])
          expect(message).toContain('its disk is full')
        }
      }

      for (const protocol of PROTOCOLS) {
        for (const stream of [true, false]) {
          const { status, code, headers } = await failureOf(
            await ask({ url, key, protocol, model: 'by/messages', stream }),
            protocol,
          )
          expect([protocol, status, code, headers.get('retry-after'), headers.get('x-should-retry')]).toEqual([
            protocol,
            ...REFUSED[protocol],
            '5',
            'true',
          ])
        }
      }
      const got = async (path: string, as = key): Promise<number> =>
        (await fetch(url + path, { headers: { authorization: `Bearer ${as}` } })).status
      expect(
        await Promise.all(
          [
            '/livez',
            '/readyz',
            '/v1/models',
            '/v1/management/payg/balance',
            `/v1/management/generation?id=${first!.headers.get('x-generation-id')}`,
          ].map((path) => got(path)),
        ),
      ).toEqual([200, 503, 200, 200, 200])
      expect([await got('/v1/models', 'sk-ai-v1-unknown'), await got('/v1/management/generation?id=unknown')]).toEqual([
        401, 404,
      ])
      expect(gateway.output().stderr).toContain(
        'Rejecting billable requests until the ledger can be written. The store is unavailable: its disk is full',
      )
      expect((await recordsOn(small)).records.length).toBe(4)

      small.clear()
      await resumed(gateway)
      expect(gateway.output().stderr).toContain('The ledger is written again: accepting billable requests.')
      const { records, open, credit } = await recordsOn(small)
      // Clients that received a complete stream pay for it; those whose response became a 503 do not.
      const charged = 4 + WAYS.filter(({ stream }) => stream).length + 1
      expect([records.length, open, credit]).toEqual([4 + WAYS.length + 1, 0, 1_000_000_000n - BILL * BigInt(charged)])
      expect(
        records
          .map(({ ending, bill, streamed }) => `${ending} ${bill} ${streamed}`)
          .filter((one) => one === 'failed 0 false').length,
      ).toBe(WAYS.length / 2)
      expect(records.filter(({ ending, bill }) => ending === 'completed' && bill === BILL).length).toBe(charged)
      // The provider did what it was asked.
      expect(records.filter(({ attempts }) => attempts?.includes('"error"') === true)).toEqual([])
      const streamed = (await Promise.all(answers)).filter(({ id }) => id !== '').map(({ id }) => unprefixed(id))
      expect(streamed.filter((id) => !records.some((record) => record.id === id))).toEqual([])
      await expectBookRight(small.copy())
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(0)
      expect(gateway.output().stderr).not.toContain('unhandled')
    } finally {
      await gateway.stop()
    }
  }, 20_000)

  /** Runs a command on the disk. Returns its exit code and its errors. */
  async function run(...command: string[]): Promise<[number, string]> {
    const child = Bun.spawn([...small.command, ...command], {
      env: { PATH: process.env.PATH ?? '' },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    })
    return [await child.exited, await new Response(child.stderr).text()]
  }

  const sluice = (...args: string[]): Promise<[number, string]> => run(program(), ...args, '--data', small.path)
  const start = (more = '', on = small): Promise<GatewayProcess> =>
    startGatewayProcess({ disk: on, config: more + configFor(provider) })

  test('a full disk is detected before any request ends, and new requests stay refused after a restart', async () => {
    const before = await recordsOn(small)
    let gateway = await start('timeouts: { drain: 100ms }\n')
    try {
      const options = {
        url: gateway.url,
        key: gateway.key,
        protocol: 'messages',
        model: 'by/messages',
        stream: true,
      } as const
      provider.shut()
      const kept = await ask(options)
      for (let looks = 0; (await recordsOn(small)).open === 0 && looks < 100; looks++) await Bun.sleep(50)
      small.fill()
      const unkept = await ask(options)
      await until(() => gateway.output().stderr.includes('Rejecting billable requests'))
      expect((await ask(options)).status).toBe(529)

      const full = [1, 'sluice: The store is unavailable: its disk is full; try again.\n']
      expect(await sluice('keys', 'create')).toEqual(full as [number, string])
      expect(await sluice('accounts', 'credit', 'default', '5')).toEqual(full as [number, string])
      expect(await sluice('accounts', 'list')).toEqual([0, ''])

      gateway.kill('SIGTERM')
      for (const text of [await kept.text(), await unkept.text()]) expect(text).toMatch(ENDED.messages.failed)
      expect(await gateway.exited).toBe(1)
      expect(gateway.output().stderr).toEndWith(
        'error could not record 2 ledger writes: the disk is full, or the store does not respond\n',
      )
      await gateway.stop()
      // Where its log fitted into the database, it was removed: only what a start needs is left again.
      small.fill(START_BYTES)

      gateway = await start()
      expect((await ask({ ...options, url: gateway.url })).status).toBe(529)
      small.clear()
      provider.open()
      await resumed(gateway)
      const after = await recordsOn(small)
      const id = unprefixed(kept.headers.get('x-generation-id')!)
      // The generation that was stored before the disk was full is charged for what was received until then. Of the
      // other one at most its beginning was stored, which costs nothing.
      const crashed = after.records.filter(({ ending }) => ending === 'crashed')
      expect(crashed.filter(({ bill }) => bill > 0n)).toEqual([expect.objectContaining({ id, estimated: true })])
      expect(after.records.length - before.records.length - crashed.length).toBe(1)
      expect(after.open).toBe(0)
    } finally {
      await gateway.stop()
    }
  }, 20_000)

  test('a full disk and a read-only folder are reported as different errors', async () => {
    const message = (error: unknown): string => (error as Error).message
    const remount = (how: string): Promise<[number, string]> => run('mount', '-o', `remount,${how}`, small.path)
    // A server has left its files in the folder.
    await (await start()).stop()
    expect(await remount('ro')).toEqual([0, ''])
    const readOnly = `sluice: cannot use the data folder ${small.path} (EROFS: read-only file system, open `
    expect(await start().catch(message)).toContain(readOnly)
    expect(await sluice('keys', 'create')).toEqual([1, expect.stringContaining(readOnly)])
    expect(await remount('rw')).toEqual([0, ''])

    const fresh = (await SmallDisk.open(1))!
    try {
      fresh.fill()
      expect(await start('', fresh).catch(message)).toContain(
        `sluice: cannot use the data folder ${fresh.path} (database or disk is full)`,
      )
      fresh.clear()
      await (await start('', fresh)).stop()
    } finally {
      await fresh.close()
    }
  }, 20_000)
})

/** System calls that fail while a file exists, and make another one then. */
const FAILING = (file: string): string => `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#define FAILING(name) int name(int file) { \
  if (access("${file}", F_OK) == 0) { \
    close(open("${file}.seen", O_WRONLY | O_CREAT, 0600)); errno = EIO; return -1; } \
  return ((int (*)(int))dlsym(RTLD_NEXT, #name))(file); }
FAILING(fsync)
FAILING(fdatasync)
`

test.skipIf(!CAN_PRELOAD)(
  'after a failed flush no request is admitted until a restart, which finds the book balanced',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-flush-'))
    const failing = join(folder, 'failing')
    const config = configFor(provider)
    let gateway = await startGatewayProcess({ data: folder, config, env: preload(folder, FAILING(failing)) })
    const generate = (): Promise<Response> =>
      ask({ url: gateway.url, key: gateway.key, protocol: 'chat.completions', model: 'by/messages', stream: false })
    try {
      provider.open()
      expect((await generate()).status).toBe(200)
      writeFileSync(failing, '')
      const failed = await failureOf(await generate(), 'chat.completions')
      expect([failed.status, failed.code, failed.message]).toEqual([
        503,
        'server_error:store_unavailable',
        'The store is unavailable: disk I/O error; try again.',
      ])
      // After the system has lost pages once, later calls succeed without the lost pages.
      rmSync(failing)
      await Bun.sleep(300)
      expect((await generate()).status).toBe(503)
      expect(
        (await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` } })).status,
      ).toBe(200)
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(1)
      await gateway.stop()

      gateway = await startGatewayProcess({ data: folder, config })
      expect((await generate()).status).toBe(200)
    } finally {
      await gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  20_000,
)

test.skipIf(!CAN_PRELOAD)(
  'with durability process a flush that fails after the answer makes the next one fail, until a restart',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-flush-'))
    const failing = join(folder, 'failing')
    const config = configFor(provider).replace('reserve: 0B', 'durability: process')
    let gateway = await startGatewayProcess({ data: folder, config, env: preload(folder, FAILING(failing)) })
    const generate = async (): Promise<number> => {
      const { url, key } = gateway
      return (await ask({ url, key, protocol: 'chat.completions', model: 'by/messages', stream: false })).status
    }
    try {
      provider.open()
      writeFileSync(failing, '')
      expect(await generate()).toBe(200)
      await until(() => existsSync(`${failing}.seen`))
      await Bun.sleep(100)
      rmSync(failing)
      expect([await generate(), await generate()]).toEqual([503, 503])
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(1)
      await gateway.stop()

      gateway = await startGatewayProcess({ data: folder, config })
      expect(await generate()).toBe(200)
    } finally {
      await gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  20_000,
)

test.skipIf(disk === undefined)(
  'a folder of files that is read-only is reported at the start, and uploads are refused',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-read-only-'))
    mkdirSync(join(folder, 'files'))
    const script = `mount -t tmpfs -o ro none ${join(folder, 'files')} && exec "$@"`
    const command = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh']
    const gateway = await startGatewayProcess({ data: folder, group: { command } })
    try {
      const { url, key } = gateway
      const body = new FormData()
      body.append('purpose', 'user_data')
      body.append('file', new File(['text'], 'a.txt'))
      const headers = { authorization: `Bearer ${key}` }
      const refused = await fetch(`${url}/v1/files`, { method: 'POST', headers, body })
      expect([refused.status, await refused.json()]).toMatchObject([
        503,
        { error: { code: 'store_unavailable', message: 'The file store is unavailable: it is read-only; try again.' } },
      ])
      expect((await ask({ url, key, protocol: 'messages', model: 'sandbox/messages', stream: false })).status).toBe(200)
      expect(gateway.output().stderr).toContain(`${join(folder, 'files')} cannot be written: it is read-only.`)
    } finally {
      await gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
  20_000,
)
