import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GenerationRecord } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { program } from '../program.ts'
import { inScene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ask, ENDED, PROTOCOLS } from './asking.ts'
import { BILL, gatedConfig, gatedProvider, type Gated } from './gated.ts'
import { ofSqlite, storeIn, withStoreOption } from '../stores.ts'

/** The money of requests in flight when a server is stopped, and of the server that replaces it. */

/** They mostly wait, so they run at the same time, each with servers of its own. */
const LIMIT_MS = 90_000

class Scene {
  readonly ending: Gated = gatedProvider()
  /** A provider whose answers never end. */
  readonly hanging: Gated = gatedProvider()
  readonly #folders: string[] = []
  readonly #started: GatewayProcess[] = []

  newFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-restart-'))
    this.#folders.push(folder)
    return folder
  }

  async start(data: string, more = ''): Promise<GatewayProcess> {
    const config = more + gatedConfig({ ends: this.ending, hangs: this.hanging })
    const gateway = await startGatewayProcess({ data, config })
    this.#started.push(gateway)
    return gateway
  }

  async end(): Promise<void> {
    for (const gateway of this.#started) await gateway.stop()
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true })
    await Promise.all([this.ending.stop(), this.hanging.stop()])
  }
}

function restartTest(name: string, run: (at: Scene) => Promise<void>, as: typeof test = test): void {
  as.concurrent(
    name,
    inScene(() => new Scene(), run),
    LIMIT_MS,
  )
}

async function kept(
  folder: string,
): Promise<{ records: GenerationRecord[]; open: number; credit: bigint | undefined }> {
  const store = await storeIn(folder)
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

const STREAMS = 200

restartTest(`a server stopped under ${STREAMS} streams settles all of them and exits with 0`, async (at) => {
  const folder = at.newFolder()
  const { url, key, kill, exited, output } = await at.start(folder, 'timeouts: { drain: 6s }\n')
  at.ending.shut()
  const streams = Array.from({ length: STREAMS }, (_, index) => ({
    protocol: PROTOCOLS[index % 4]!,
    over: PROTOCOLS[(index >> 2) % 4]!,
    ends: index % 3 !== 0,
  }))
  const answers = await Promise.all(
    streams.map(({ protocol, over, ends }) =>
      ask({ url, key, protocol, model: `${ends ? 'ends' : 'hangs'}/${over}`, stream: true, limit: 10 }),
    ),
  )
  expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  kill('SIGTERM')
  while ((await fetch(`${url}/readyz`)).status !== 503) await Bun.sleep(5)
  for (const protocol of PROTOCOLS) {
    const refused = await ask({ url, key, protocol, model: 'ends/messages', stream: true })
    expect([protocol, refused.status, refused.headers.get('retry-after'), await refused.text()]).toEqual([
      protocol,
      protocol === 'messages' ? 529 : 503,
      '1',
      expect.stringContaining('Sluice is stopping'),
    ])
  }
  at.ending.open()
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  for (const [index, { protocol, ends }] of streams.entries()) {
    expect([
      protocol,
      ends,
      ENDED[protocol].whole.test(texts[index]!),
      ENDED[protocol].failed.test(texts[index]!),
    ]).toEqual([protocol, ends, ends, !ends])
  }
  expect(await exited).toBe(0)
  expect(output().stderr).not.toContain('unhandled')

  const { records, open, credit } = await kept(folder)
  const byId = new Map(records.map((record) => [record.id, record]))
  expect([byId.size, records.length, open]).toEqual([STREAMS, STREAMS, 0])
  for (const [index, { protocol, ends }] of streams.entries()) {
    const { ending, bill, estimated } = byId.get(
      answers[index]!.headers.get('x-generation-id')!.replace(/^.*[-_]/, ''),
    )!
    expect([protocol, ending, estimated, ends ? bill : bill > 0n]).toEqual([
      protocol,
      ends ? 'completed' : 'shutdown',
      !ends,
      ends ? BILL : true,
    ])
  }
  expect(credit).toBe(1_000_000_000n - records.reduce((sum, { bill }) => sum + bill, 0n))
  await expectBookRight(folder)
})

restartTest(
  'a server stopped twice within two seconds exits at once, and the next start settles the rest',
  async (at) => {
    const folder = at.newFolder()
    const first = await at.start(folder, 'timeouts: { drain: 60s }\n')
    const answer = await ask({
      url: first.url,
      key: first.key,
      protocol: 'chat.completions',
      model: 'hangs/messages',
      stream: true,
    })
    while ((await kept(folder)).open === 0) await Bun.sleep(20)
    first.kill('SIGTERM')
    while (!first.output().stderr.includes('stopping: waiting for 1 request')) await Bun.sleep(5)
    // One Ctrl-C may arrive several times within a second.
    first.kill('SIGTERM')
    expect(await Promise.race([first.exited, Bun.sleep(1_100).then(() => 'still there')])).toBe('still there')
    first.kill('SIGTERM')
    expect(await first.exited).toBe(1)
    await answer.text().catch(() => {})
    expect((await kept(folder)).records).toEqual([])

    await at.start(folder)
    const { records, open } = await kept(folder)
    expect([records.map(({ ending }) => ending), open]).toEqual([['crashed'], 0])
    await expectBookRight(folder)
  },
)

restartTest('a server stopped while it starts leaves a usable folder, with the keys that were printed', async (at) => {
  for (const afterMs of [0, 50, 80, 120, 180]) {
    const folder = at.newFolder()
    const options = await withStoreOption(['--data', folder])
    const child = Bun.spawn([program(), 'serve', ...options, '--port', '0'], {
      env: { PATH: process.env.PATH ?? '' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    await Bun.sleep(afterMs)
    child.kill('SIGTERM')
    const shown = [...(await new Response(child.stdout).text()).matchAll(/^key \S+ (\S+)$/gm)].map(([, text]) => text!)
    // 143: stopped before anything was started.
    expect([0, 143]).toContain(await child.exited)
    expect(await new Response(child.stderr).text()).not.toMatch(/error/i)
    const gateway = await at.start(folder)
    const listing = Bun.spawn([program(), 'keys', 'list', '--json', ...options], {
      env: { PATH: process.env.PATH ?? '' },
    })
    const others = ((await new Response(listing.stdout).json()) as { name: string; text: string }[])
      .filter(({ name }) => name === 'first')
      .map(({ text }) => text.slice(-4))
    if (shown.length > 0) expect(others.toSorted()).toEqual(shown.map((text) => text.slice(-4)).toSorted())
    else expect(gateway.output().stdout).toMatch(/^key management /m)
  }
})

const folderTest = (name: string, run: (at: Scene) => Promise<void>): void => restartTest(name, run, ofSqlite('folder'))

folderTest('a second server takes over from one that is closing, with all that it settled', async (at) => {
  const folder = at.newFolder()
  const first = await at.start(folder)
  at.ending.shut()
  const answer = await ask({
    url: first.url,
    key: first.key,
    protocol: 'responses',
    model: 'ends/generateContent',
    stream: true,
  })
  first.kill('SIGTERM')
  const second = at.start(folder)
  // The second server waits for the first one, which waits for the stream.
  expect(await Promise.race([second, Bun.sleep(500).then(() => 'waits')])).toBe('waits')
  at.ending.open()
  expect(await answer.text()).toMatch(ENDED.responses.whole)
  expect(await first.exited).toBe(0)
  const { url, key } = await second
  const record = await fetch(`${url}/v1/management/generation?id=${answer.headers.get('x-generation-id')}`, {
    headers: { authorization: `Bearer ${key}` },
  })
  expect(await record.json()).toMatchObject({ ending: 'completed', estimated: false })
  const { data } = (await (
    await fetch(`${url}/v1/management/payg/balance`, { headers: { authorization: `Bearer ${key}` } })
  ).json()) as { data: { total_credits: number } }
  expect(data.total_credits).toBe((1e9 - Number(BILL)) / 1e9)
})

folderTest('a second server is refused while the first takes too long to close', async (at) => {
  const folder = at.newFolder()
  const first = await at.start(folder, 'timeouts: { drain: 60s }\n')
  const answer = await ask({
    url: first.url,
    key: first.key,
    protocol: 'messages',
    model: 'hangs/messages',
    stream: true,
  })
  first.kill('SIGTERM')
  const refused = await at.start(folder).catch((error: unknown) => (error as Error).message)
  expect(refused).toContain(
    `sluice: the data folder ${folder} is in use by another Sluice (process ${first.pid}); stop that one`,
  )
  first.kill('SIGKILL')
  await answer.text().catch(() => {})
})
