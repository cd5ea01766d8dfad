import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { errorData } from '../../src/worker/errors.ts'
import { type Job, WorkerPool } from '../../src/worker/pool.ts'
import { MessageReader, piecesOf } from '../../src/worker/messages.ts'

/** Jobs in processes of their own. */

const ENTRY = new URL('./jobs.ts', import.meta.url)
const NEVER = new AbortController().signal

// Starting processes takes long on a busy machine.
setDefaultTimeout(60_000)

const job = (kind: string, more: Partial<Job> = {}): Job => ({
  kind,
  input: undefined,
  bytes: [],
  accountId: 'one',
  signal: NEVER,
  ...more,
})

/** A process that has ended stays in the list until the system collects it. */
const isAlive = (pid: unknown): boolean =>
  /^[^Z]/.test(
    Bun.spawnSync(['ps', '-o', 'stat=', '-p', String(pid)])
      .stdout.toString()
      .trim(),
  )

const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await Bun.sleep(5)
}

test('values and bytes arrive as they were sent, in chunks of any size', () => {
  const received: unknown[] = []
  const reader = new MessageReader(({ value, bytes }) => received.push([value, bytes.toString()]))
  const value = { a: undefined, b: new Map([['c', [1n]]]), d: new Uint32Array([5]) }
  const sent = Buffer.concat([
    ...piecesOf(value, [Buffer.from('some '), Buffer.from('bytes')]),
    ...piecesOf(undefined, []),
    ...piecesOf('last', [Buffer.from('x')]),
  ])
  for (let size = 1; size <= sent.length; size++) {
    received.length = 0
    for (let at = 0; at < sent.length; at += size) reader.push(sent.subarray(at, at + size))
    expect(received).toEqual([
      [value, 'some bytes'],
      [undefined, ''],
      ['last', 'x'],
    ])
  }
})

describe('a pool of processes', () => {
  test('gives the output of a job, and its bytes', async () => {
    const pool = new WorkerPool(ENTRY)
    const bytes = Buffer.alloc(20_000_000, 'some text ')
    const done = await pool.run(job('echo', { input: { a: [1] }, bytes: [bytes.subarray(0, 5), bytes.subarray(5)] }))
    expect(done.output).toEqual({ a: [1] })
    expect(done.bytes.equals(bytes)).toBe(true)
  })

  test('throws the error of a job with all its details, and for a defect nothing that a client may see', async () => {
    const pool = new WorkerPool(ENTRY)
    expect(errorData(await pool.run(job('refuse')).catch((error: unknown) => error))).toEqual({
      code: 'unsupported_parameter',
      message: 'tools[3]: is wrong',
      details: { param: 'tools[3]', status: 418, metadata: { found: [1, 2] } },
    })
    const defect = (await pool.run(job('break')).catch((error: unknown) => error)) as GatewayError
    expect([defect.code, defect.message]).toEqual(['internal_error', 'Internal error.'])
    expect(String((defect.cause as Error).message)).toContain('a defect')
  })

  test('loses only the job of a process that dies', async () => {
    const pool = new WorkerPool(ENTRY)
    const jobs = ['die', 'echo', 'die', 'echo', 'echo'].map((kind) => pool.run(job(kind, { input: kind })))
    const ends = await Promise.allSettled(jobs)
    expect(ends.map((end) => (end.status === 'fulfilled' ? end.value.output : end.reason.code))).toEqual([
      'overloaded',
      'echo',
      'overloaded',
      'echo',
      'echo',
    ])
  })

  test('does no job of a client that has left before', async () => {
    const error = await new WorkerPool(ENTRY).run(job('echo', { signal: AbortSignal.abort() })).catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'upstream_error' })
  })

  test('does the jobs of accounts in turn, and none of a client that left', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
    const file = join(folder, 'done')
    const pool = new WorkerPool(ENTRY, { mostProcesses: 1 })
    const left = new AbortController()
    const write = (accountId: string, text: string, signal = NEVER) =>
      pool.run(job('write', { accountId, input: { file, text }, signal }))
    const done = [
      ...['a', 'b', 'c', 'd', 'e'].map((text) => write('one', text)),
      write('one', '?', left.signal).catch(() => {}),
      ...['1', '2'].map((text) => write('two', text)),
    ]
    left.abort()
    await Promise.all(done)
    const order = readFileSync(file, 'utf8')
    expect([order.length, order.includes('?')]).toEqual([7, false])
    expect(order.indexOf('2')).toBeLessThan(order.indexOf('d'))
    rmSync(folder, { recursive: true })
  })

  test('fails the job of a process that is killed while the job is sent, and nothing else', async () => {
    const pool = new WorkerPool(ENTRY, { mostProcesses: 1 })
    const { output: pid } = await pool.run(job('pid'))
    process.kill(pid as number, 'SIGSTOP')
    const sending = pool.run(job('echo', { bytes: [Buffer.alloc(20_000_000)] })).catch(({ code }) => code)
    await Bun.sleep(50)
    process.kill(pid as number, 'SIGKILL')
    expect(await sending).toBe('overloaded')
    expect((await pool.run(job('echo', { input: 'again' }))).output).toBe('again')
  })

  test('refuses more jobs than may wait', async () => {
    const pool = new WorkerPool(ENTRY, { mostProcesses: 1, mostWaiting: 2 })
    const jobs = Array.from({ length: 4 }, () => pool.run(job('echo', { input: 1 })))
    const ends = await Promise.allSettled(jobs)
    expect(ends.map((end) => (end.status === 'fulfilled' ? end.value.output : end.reason.code))).toEqual([
      1,
      1,
      1,
      'overloaded',
    ])
  })

  test('ends a process that is idle, and one that has grown', async () => {
    const idle = await new WorkerPool(ENTRY, { idleMs: 50 }).run(job('pid'))
    await until(() => !isAlive(idle.output))
    const pool = new WorkerPool(ENTRY)
    const { output: grown } = await pool.run(job('grow'))
    await until(() => !isAlive(grown))
    expect((await pool.run(job('echo', { input: 'again' }))).output).toBe('again')
  })

  test('collects the garbage of a process again only where it has grown since', async () => {
    const pool = new WorkerPool(ENTRY)
    const collections: unknown[] = []
    for (const input of [100, 150, 150, 170, 190, 150, 150])
      collections.push((await pool.run(job('keep', { input }))).output)
    expect(collections).toEqual([0, 0, 1, 1, 1, 2, 2])
  })

  test('gives its processes no keys', async () => {
    process.env.SOME_API_KEY = 'secret'
    const { output } = await new WorkerPool(ENTRY).run(job('environment'))
    delete process.env.SOME_API_KEY
    expect(Object.values(output as object)).not.toContain('secret')
  })
})

test('a worker ends when the process that started it is killed', async () => {
  const script = `
    const { WorkerPool } = await import(${JSON.stringify(join(import.meta.dir, '../../src/worker/pool.ts'))})
    const job = { kind: 'pid', bytes: [], accountId: 'one', signal: new AbortController().signal }
    console.log((await new WorkerPool(new URL(${JSON.stringify(ENTRY.href)})).run(job)).output)
    setInterval(() => {}, 1000)`
  const parent = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  const { value } = await parent.stdout.getReader().read()
  const pid = Number(new TextDecoder().decode(value))
  expect(isAlive(pid)).toBe(true)
  parent.kill('SIGKILL')
  await until(() => !isAlive(pid))
})
