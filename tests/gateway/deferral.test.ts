import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { handleRequest } from '../../src/app.ts'
import { Deadlines, deadlines } from '../../src/deadlines.ts'
import { Predictor } from '../../src/endpoints/predictions/predictor.ts'
import { Webhooks } from '../../src/endpoints/predictions/webhooks.ts'
import { GatewayError } from '../../src/error.ts'
import { log } from '../../src/log/log.ts'
import type { GatewayContext } from '../../src/routes.ts'
import type { Store } from '../../src/store/store.ts'
import type { Overrides } from '../store/overriding.ts'
import { ON_POSTGRES } from '../stores.ts'
import { inProcessGateway } from './in-process.ts'

/** A gateway in this process, whose store fails and whose provider responds as a test sets. */

let folder: string
let plain: Store
let app: GatewayContext
let headers: Record<string, string>
let upstream: Bun.Server<undefined>
let calls: string[]
let now: number
/** Replaced methods of the store. */
let failing: Overrides
let respond: (name: string) => Response | Promise<Response>

const full = (): Promise<never> => Promise.reject(new GatewayError('store_unavailable', 'The disk is full.'))
const theirs = (id: string, status: string): Response =>
  Response.json({
    id,
    object: 'response',
    created_at: 1,
    status,
    background: true,
    model: 'm',
    output: [],
    usage: null,
  })

beforeEach(async () => {
  calls = []
  failing = {}
  now = 0
  let works = 0
  respond = (name) =>
    name === 'POST ' ? theirs(`work-${++works}`, 'queued') : theirs(name.split('/')[1]!, 'completed')
  upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: (request) => {
      const name = `${request.method} ${new URL(request.url).pathname.replace('/v1/responses', '')}`
      calls.push(name)
      return respond(name)
    },
  })
  folder = mkdtempSync(join(tmpdir(), 'sluice-deferral-'))
  const built = await inProcessGateway(
    folder,
    `
billing: { unpriced: free }
providers:
  up: { protocol: responses, baseUrl: "http://127.0.0.1:${upstream.port}/v1" }
`,
    () => failing,
    () => now,
  )
  plain = built.plain
  headers = built.headers
  app = Object.assign(built.app, {
    predictor: new Predictor(built.app, new Webhooks(built.app)),
  })
})
afterEach(async () => {
  failing = {}
  await app.ledger.stop()
  await app.files.stop()
  await plain.close()
  await upstream.stop(true)
  rmSync(folder, { recursive: true, force: true })
})

const create = (): Promise<Response> =>
  handleRequest(
    app,
    new Request('http://sluice/v1/responses', {
      method: 'POST',
      headers,
      body: JSON.stringify({ model: 'up/m', input: 'Hello', background: true }),
    }),
  )
const until = async (reached: () => boolean): Promise<void> => {
  while (!reached()) await Bun.sleep(5)
}

test('a background response that cannot be stored is cancelled, ends once and does not count as abuse', async () => {
  failing['ledger.saveOpen'] = full
  expect((await create()).status).toBe(503)
  expect(app.inFlight.size).toBe(0)
  expect(app.ledger.deferred).toEqual([])
  await until(() => calls.includes('POST /work-1/cancel'))
  now += 60_000
  expect(app.abuseDetection.evaluate(await app.store.accounts.list())).toEqual([])
})

test('each background response is polled once at a time, even while polling others fails', async () => {
  await create()
  await create()
  const gate = Promise.withResolvers<Response>()
  respond = (name) => (name === 'GET /work-1' ? gate.promise : theirs('work-2', 'completed'))
  const follower = app.background
  follower.round()
  await until(() => app.ledger.deferred.length === 1)
  follower.round()
  follower.round()
  await until(() => calls.includes('GET /work-1'))
  expect(calls.filter((name) => name.startsWith('GET')).toSorted()).toEqual(['GET /work-1', 'GET /work-2'])
  gate.resolve(theirs('work-1', 'in_progress'))
  await follower.stop()
  expect(app.ledger.deferred.length).toBe(1)
})

test('rounds of polls are due only while a background response is open', async () => {
  const delays: number[] = []
  const set = spyOn(deadlines, 'set').mockImplementation((deadline, ms) => {
    if (deadline.owner === app.background) delays.push(ms)
    Deadlines.prototype.set.call(deadlines, deadline, ms)
  })
  try {
    app.background.roundSoon()
    expect(delays).toEqual([])
    await create()
    await create()
    expect(delays).toEqual([5_000])
    respond = (name) => theirs(name.split('/')[1]!, name === 'GET /work-1' ? 'completed' : 'in_progress')
    app.background.onDeadline()
    await until(() => app.ledger.deferred.length === 1)
    expect(delays).toEqual([5_000])
    respond = (name) => theirs(name.split('/')[1]!, 'completed')
    app.background.onDeadline()
    await until(() => app.ledger.deferred.length === 0)
    await app.background.stop()
    delays.length = 0
    app.background.onDeadline()
    expect(delays).toEqual([])
  } finally {
    set.mockRestore()
  }
})

test('a server that stops does not wait for any provider', async () => {
  await create()
  respond = () => new Promise(() => {})
  const follower = app.background
  follower.round()
  await until(() => calls.includes('GET /work-1'))
  await follower.stop()
  expect(app.ledger.deferred.length).toBe(1)
})

test('a failed poll is logged and repeated', async () => {
  const logged = spyOn(log, 'error').mockImplementation(() => {})
  try {
    await create()
    const follower = app.background
    failing['responses.find'] = () => Promise.reject(new TypeError('out of order'))
    follower.round()
    await until(() => logged.mock.calls.length > 0)
    expect(String(logged.mock.calls[0]![1])).toContain('out of order')
    failing = {}
    await Bun.sleep(0)
    follower.round()
    await until(() => app.ledger.deferred.length === 0)
    await follower.stop()
  } finally {
    logged.mockRestore()
  }
})

test('a response whose usage cannot be counted leaves no reservation', async () => {
  const logged = spyOn(log, 'error').mockImplementation(() => {})
  try {
    await create()
    const [open] = app.ledger.deferred
    // The tokenizer fails.
    Object.defineProperty(open!.meter, 'count', { value: () => Promise.reject(new Error('cannot count')) })
    const follower = app.background
    follower.round()
    await until(() => app.ledger.deferred.length === 0)
    await follower.stop()
    expect((await plain.ledger.findGeneration(open!.request.accountId, open!.request.id))?.ending).toBe('completed')
  } finally {
    logged.mockRestore()
  }
})

/** Over SQLite the response is stored in one transaction with the record, of which a test can hold no half. */
const MOMENTS: [string, boolean][] = ON_POSTGRES
  ? [
      ['at the same time', false],
      ['while it is recorded', true],
    ]
  : [['at the same time', false]]

describe.each(MOMENTS)('two requests that observe the same end, %s,', (_, isLater) => {
  test('both wait for its record', async () => {
    const { id } = (await (await create()).json()) as { id: string }
    const [open] = app.ledger.deferred
    const closing = Promise.withResolvers<never>()
    let closed = 0
    failing['ledger.closeGeneration'] = () => {
      closed++
      return closing.promise
    }
    let answered = 0
    const get = async (): Promise<number> => {
      const { status } = await handleRequest(app, new Request(`http://sluice/v1/responses/${id}`, { headers }))
      answered++
      return status
    }
    let reads = 0
    failing['responses.find'] = (accountId: string, responseId: string) => {
      reads++
      return plain.responses.find(accountId, responseId)
    }
    const first = get()
    if (isLater) {
      await until(() => closed > 0)
      while ((await plain.responses.find(open!.request.accountId, id))?.upstream !== undefined) await Bun.sleep(5)
    }
    const both = [first, get()]
    await until(() => reads >= both.length && closed > 0)
    await Bun.sleep(100)
    expect(answered).toBe(0)
    closing.reject(new GatewayError('store_unavailable', 'The disk is full.'))
    expect(await Promise.all(both)).toEqual([503, 503])
  })
})
