import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Bucket } from '../../src/files/bucket.ts'
import { Files } from '../../src/files/files.ts'
import { S3Chunks } from '../../src/files/s3-chunks.ts'
import { ChunkedBlobs } from '../../src/store/chunked-blobs.ts'
import { storeIn } from '../stores.ts'
import { rawServer, until } from '../transport/raw-server.ts'
import { fault, type S3Server, startS3 } from './s3-server.ts'
import { failure } from './records.ts'

const cleanups: (() => unknown)[] = []
afterAll(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup()
})

function newS3(): S3Server {
  const s3 = startS3()
  cleanups.push(() => s3.stop())
  return s3
}

const LIMIT_MS = 300
const location = { bucket: 'files', prefix: '' }
const PART = new Uint8Array(4 * 2 ** 20).fill(7)

const bucketAt = (url: string): Bucket =>
  new Bucket({ location, env: { ...newS3().env, AWS_ENDPOINT_URL: url }, limitMs: LIMIT_MS })

const OPERATIONS: [string, (bucket: Bucket) => Promise<unknown>][] = [
  ['GET', (bucket) => bucket.get('a/0')],
  ['PUT', (bucket) => bucket.put('a/0', PART)],
  ['DELETE', (bucket) => bucket.delete('a/0')],
  ['list', (bucket) => bucket.list('a/')],
]

/** Time limits and pauses are waited for at the same time. */
const WAIT_MS = 60_000

describe('an operation that takes too long', () => {
  test.concurrent.each(OPERATIONS)(
    'ends with its connections, where nothing is answered (%s)',
    async (_, run) => {
      const server = rawServer(() => {})
      cleanups.push(() => server.stop())
      expect(await failure(run(bucketAt(server.url)))).toMatchObject({ failure: 'timeout' })
      await until(() => server.open === 0)
      expect(server.connections).toBeGreaterThan(0)
      expect(server.connections).toBeLessThanOrEqual(3)
    },
    WAIT_MS,
  )

  test.concurrent(
    'ends with its connections, where the answer stops in the middle',
    async () => {
      const server = rawServer((socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'))
      cleanups.push(() => server.stop())
      expect(await failure(bucketAt(server.url).get('a/0'))).toMatchObject({ failure: 'timeout' })
      await until(() => server.open === 0)
    },
    WAIT_MS,
  )

  test.concurrent(
    'ends with its connections, where the server does not read what is sent',
    async () => {
      const sockets: { resume(): void }[] = []
      let open = 0
      const server = Bun.listen({
        hostname: '127.0.0.1',
        port: 0,
        socket: {
          open(socket) {
            open += 1
            sockets.push(socket)
            socket.pause()
          },
          data() {},
          close() {
            open -= 1
          },
        },
      })
      cleanups.push(() => server.stop(true))
      // More than the system takes for a reader that does not come.
      const bucket = bucketAt(`http://127.0.0.1:${server.port}`)
      const content = new Uint8Array(64 * 2 ** 20)
      expect(await failure(bucket.put('a/0', content))).toMatchObject({ failure: 'timeout' })
      for (const socket of sockets) socket.resume()
      await until(() => open === 0)
      expect(sockets.length).toBeGreaterThan(0)
    },
    WAIT_MS,
  )
})

describe('an operation that fails', () => {
  const failing = (s3: S3Server, times: number, answer: () => Response): void => {
    let count = 0
    s3.failure = () => (count++ < times ? answer() : undefined)
  }

  test.concurrent.each(OPERATIONS)(
    'is repeated until it works, three times at most (%s)',
    async (_, run) => {
      const s3 = newS3()
      s3.objects.set('a/0', { content: PART, at: 0 })
      const bucket = new Bucket({ location, env: s3.env })
      failing(s3, 2, () => fault(503, 'SlowDown'))
      await run(bucket)
      expect(s3.requests.length).toBe(3)
      failing(s3, 3, () => fault(500, 'InternalError'))
      expect(await failure(run(bucket))).toMatchObject({ failure: 'failed', reason: 'InternalError' })
      expect(s3.requests.length).toBe(6)
    },
    WAIT_MS,
  )

  test.concurrent(
    'is not repeated where the bucket refuses it',
    async () => {
      const s3 = newS3()
      failing(s3, 9, () => fault(403, 'AccessDenied'))
      const bucket = new Bucket({ location, env: s3.env })
      expect(await failure(bucket.put('a', PART))).toMatchObject({ failure: 'refused', reason: 'AccessDenied' })
      expect(s3.requests.length).toBe(1)
    },
    WAIT_MS,
  )

  test.concurrent(
    'has no text of the server, but for the name of a code',
    async () => {
      const s3 = newS3()
      const bucket = new Bucket({ location, env: s3.env })
      s3.failure = () => new Response('<html>secret</html>', { status: 502 })
      expect(await failure(bucket.get('a'))).toMatchObject({ failure: 'failed', message: 'status 502' })
      s3.failure = () => new Response('<html>secret</html>')
      expect(await failure(bucket.list(''))).toMatchObject({ message: 'the answer is not a list of objects' })
      s3.failure = () => new Response('nothing here', { status: 404 })
      expect(await failure(bucket.get('a'))).toMatchObject({ failure: 'refused', message: 'status 404' })
    },
    WAIT_MS,
  )

  test.concurrent(
    'says that no server listens',
    async () => {
      const bucket = bucketAt('http://127.0.0.1:9')
      expect(await failure(bucket.get('a'))).toMatchObject({ failure: 'connection', reason: 'ECONNREFUSED' })
    },
    WAIT_MS,
  )
})

describe('the check of a bucket', () => {
  const opened = async (env: S3Server['env'], prefix = 'p'): Promise<S3Chunks> =>
    S3Chunks.open({ location: { ...location, prefix }, env })

  test('asks for nothing while it is used', async () => {
    const s3 = newS3()
    const chunks = await opened(s3.env)
    await chunks.check()
    expect(s3.requests.map(({ method }) => method)).toEqual(['GET'])
  })

  test('finds out that an unused bucket is away', async () => {
    const s3 = newS3()
    let at = Date.now()
    const chunks = await S3Chunks.open({ location, env: s3.env, now: () => at })
    s3.failure = () => fault(403, 'InvalidAccessKeyId')
    await chunks.check()
    expect(chunks.health.outage).toBeUndefined()
    at += 60_000
    expect(await failure(chunks.check())).toMatchObject({ reason: 'InvalidAccessKeyId' })
    expect(chunks.health.outage).toBe('InvalidAccessKeyId')
  })

  test('finds the end of an outage, also where only writing failed, and leaves nothing', async () => {
    const s3 = newS3()
    const chunks = await opened(s3.env)
    s3.failure = (method) => (method === 'PUT' ? fault(403, 'AccessDenied') : undefined)
    expect(await failure(chunks.write('a', 0, PART))).toMatchObject({
      code: 'store_unavailable',
      retryAfterSeconds: 60,
    })
    expect(await failure(chunks.check())).toMatchObject({ reason: 'AccessDenied' })
    expect([await chunks.read('b', 0), chunks.health.outage]).toEqual([undefined, 'AccessDenied'])
    s3.failure = undefined
    await chunks.check()
    expect([chunks.health.outage, [...s3.objects.keys()]]).toEqual([undefined, []])
  })
})

test('an object is not changed on its way without being noticed', async () => {
  const s3 = newS3()
  const changing = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.bytes()
      if (body.length > 0) body[0]! ^= 1
      const { pathname } = new URL(request.url)
      return fetch(s3.env['AWS_ENDPOINT_URL']! + pathname, { method: request.method, headers: request.headers, body })
    },
  })
  cleanups.push(() => changing.stop(true))
  // The signature has the host, which stays the same.
  const bucket = new Bucket({ location, env: { ...s3.env, AWS_ENDPOINT_URL: changing.url.origin } })
  expect(await failure(bucket.put('a', PART))).toMatchObject({ reason: 'XAmzContentSHA256Mismatch' })
  expect(s3.objects.size).toBe(0)
})

test('what a failed upload left, and what still arrives of it, is removed after an hour', async () => {
  const s3 = newS3()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bucket-'))
  const store = await storeIn(folder)
  cleanups.push(
    () => rmSync(folder, { recursive: true, force: true }),
    () => store.close(),
  )
  const open = async (): Promise<Files> =>
    Files.open({
      ...{ store: store.files, folder, isShared: true, quotaBytes: 2 ** 30, outputKeepMs: 3_600_000 },
      blobs: new ChunkedBlobs(await S3Chunks.open({ location, env: s3.env, limitMs: 1_500 })),
    })
  const first = await open()
  s3.failure = (method, key) => (method === 'PUT' && key.endsWith('/1') ? new Promise(() => {}) : undefined)
  const upload = await first.upload('a')
  expect(await failure(upload.write(new Uint8Array(9 * 2 ** 20)))).toMatchObject({
    code: 'store_unavailable',
    status: 503,
    retryAfterSeconds: 5,
    message: expect.stringMatching(/does not answer as it should \(no answer in \d+ seconds\); try again\.$/),
  })
  s3.failure = undefined
  await upload.discard()
  await first.stop()
  const [part] = [...s3.objects.keys()].filter((key) => key.endsWith('/0'))
  s3.objects.set(part!.replace('/0', '/1'), { content: PART, at: Date.now() })
  for (const object of s3.objects.values()) object.at -= 2 * 3_600_000
  const second = await open()
  await until(() => s3.objects.size === 0)
  await second.stop()
})
