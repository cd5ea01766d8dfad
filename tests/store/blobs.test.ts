import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FolderBlobs } from '../../src/files/blobs.ts'
import { Files } from '../../src/files/files.ts'
import { S3Chunks } from '../../src/files/s3-chunks.ts'
import { ChunkedBlobs } from '../../src/store/chunked-blobs.ts'
import type { BlobStore, Store } from '../../src/store/store.ts'
import { newPostgresFolder, sqlIn, storeIn } from '../stores.ts'
import { fault, S3_KEY, type S3Server, startS3 } from './s3-server.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function openPostgres(): Promise<{ folder: string; store: Store; blobs: BlobStore }> {
  const folder = newPostgresFolder()
  const store = await storeIn(folder)
  cleanups.push(
    () => rmSync(folder, { recursive: true, force: true }),
    () => store.close(),
  )
  return { folder, store, blobs: store.blobs! }
}

const openFolder = (): Promise<FolderBlobs> => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return FolderBlobs.open(folder, false)
}

async function openS3(prefix = 'a/b'): Promise<{ s3: S3Server; blobs: BlobStore }> {
  const s3 = startS3()
  cleanups.push(() => s3.stop())
  return { s3, blobs: new ChunkedBlobs(await S3Chunks.open({ location: { bucket: 'files', prefix }, env: s3.env })) }
}

const MIB = 2 ** 20

/** Bytes that differ from those at the same place in other chunks. */
function bytesOf(size: number): Uint8Array {
  const bytes = new Uint8Array(size)
  for (let at = 0; at < size; at++) bytes[at] = at ^ (at >> 9)
  return bytes
}

async function put(blobs: BlobStore, bytes: Uint8Array, step = 300_000): Promise<string> {
  const blob = await blobs.create()
  for (let at = 0; at < bytes.length; at += step) await blob.write(bytes.subarray(at, at + step))
  await blob.keep()
  await blob.discard()
  return blob.name
}

/** The status, the length and the hash of what a client gets. */
async function get(blobs: BlobStore, name: string, size: number, range: string | null = null): Promise<unknown[]> {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async ({ headers }) =>
      (await blobs.respond(name, size, { range: headers.get('range'), headers: { 'content-type': 'a/b' } })) ??
      new Response('', { status: 404 }),
  })
  try {
    const response = await fetch(server.url, range === null ? {} : { headers: { range } })
    const bytes = await response.bytes()
    const { headers, status } = response
    return [status, headers.get('content-type'), headers.get('content-range'), bytes.length, Bun.hash(bytes)]
  } finally {
    await server.stop(true)
  }
}

for (const [name, open] of [
  ['the data folder', openFolder],
  ['PostgreSQL', async () => (await openPostgres()).blobs],
  ['S3', async () => (await openS3()).blobs],
] as const)
  describe(`bytes in ${name}`, () => {
    test('a blob of any size is read and sent as it was written', async () => {
      const blobs = await open()
      for (const size of [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB, 5 * MIB + 17]) {
        const bytes = bytesOf(size)
        const blob = await put(blobs, bytes, size < 2 ? 1 : 777_777)
        expect(Bun.hash((await blobs.read(blob, size))!)).toBe(Bun.hash(bytes))
        expect(await get(blobs, blob, size)).toEqual([200, 'a/b', null, size, Bun.hash(bytes)])
      }
    })

    test('a range is sent, also over the end of a chunk', async () => {
      const blobs = await open()
      const size = 3 * MIB + 5
      const bytes = bytesOf(size)
      const blob = await put(blobs, bytes)
      for (const [range, from, to] of [
        ['bytes=0-0', 0, 1],
        [`bytes=${MIB - 2}-${2 * MIB + 3}`, MIB - 2, 2 * MIB + 4],
        [`bytes=${MIB}-`, MIB, size],
        ['bytes=-7', size - 7, size],
        [`bytes=2-${size * 2}`, 2, size],
      ] as const) {
        const part = bytes.slice(from, to)
        const shown = `bytes ${from}-${to - 1}/${size}`
        expect(await get(blobs, blob, size, range)).toEqual([206, 'a/b', shown, to - from, Bun.hash(part)])
      }
      expect((await get(blobs, blob, size, `bytes=${size}-`))[0]).toBe(416)
    })

    test('a removed blob, and one that was never kept, are unknown', async () => {
      const blobs = await open()
      const blob = await put(blobs, bytesOf(20 * MIB), MIB)
      await blobs.remove(blob)
      await blobs.remove(blob)
      const discarded = await blobs.create()
      await discarded.write(bytesOf(2 * MIB))
      await discarded.discard()
      for (const gone of [blob, discarded.name, 'ab'.repeat(16)])
        expect([await blobs.read(gone, 9), (await get(blobs, gone, 9))[0]]).toEqual([undefined, 404])
    })
  })

describe('bytes in PostgreSQL', () => {
  test('what uploads of ended processes left is removed after an hour, and nothing else', async () => {
    const { folder, store, blobs } = await openPostgres()
    const open = (): Promise<Files> =>
      Files.open({ store: store.files, blobs, isShared: true, folder, quotaBytes: 2 ** 30, outputKeepMs: 3_600_000 })
    const names = async (): Promise<string[]> =>
      (await sqlIn<{ name: string }>(folder, 'SELECT DISTINCT name FROM blob_chunks ORDER BY name')).map(
        ({ name }) => name,
      )
    const first = await open()
    const token = await first.publish('a', { mediaType: 'a/b', data: bytesOf(10) })
    const half = await blobs.create()
    await half.write(bytesOf(2 * MIB))
    const lost = await put(blobs, bytesOf(3 * MIB))
    await sqlIn(folder, "UPDATE new_blobs SET written_at = written_at - interval '2 hours'")
    const young = await put(blobs, bytesOf(5))
    await first.stop()
    const second = await open()
    while ((await names()).length > 2) await Bun.sleep(5)
    await second.stop()
    const output = (await second.findOutput(token))!
    expect(await names()).toEqual([output.blob, young].sort())
    expect([...(await second.bytes(output))]).toEqual([...bytesOf(10)])
    expect(lost).not.toBe(young)
    // A blob that has been looked at is not looked at again.
    expect(await sqlIn<{ name: string }>(folder, 'SELECT name FROM new_blobs')).toEqual([{ name: young }])
  })

  test('a large blob passes with a memory of few chunks, and a slow client holds no connection', async () => {
    const { blobs } = await openPostgres()
    const blob = await blobs.create()
    const piece = bytesOf(MIB)
    const size = 96 * MIB
    Bun.gc(true)
    const before = process.memoryUsage().rss
    for (let at = 0; at < size; at += MIB) await blob.write(piece)
    await blob.keep()
    const readers = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const response = await blobs.respond(blob.name, size, { range: null, headers: {} })
        return response!.body!.getReader()
      }),
    )
    // Twenty readers that have begun, and one that reads on: more than there are connections.
    for (const reader of readers) await reader.read()
    let read = MIB
    for (;;) {
      const { value, done } = await readers[0]!.read()
      if (done) break
      read += value.length
    }
    expect(read).toBe(size)
    Bun.gc(true)
    expect(process.memoryUsage().rss - before).toBeLessThan(size)
    for (const reader of readers.slice(1)) await reader.cancel()
  }, 60_000)

  test('bytes that are deleted while they are sent end the response, and not as if it were complete', async () => {
    const { blobs } = await openPostgres()
    const blob = await put(blobs, bytesOf(4 * MIB))
    const response = await blobs.respond(blob, 4 * MIB, { range: null, headers: {} })
    const reader = response!.body!.getReader()
    await reader.read()
    await blobs.remove(blob)
    expect(await reader.read().catch((error: Error) => error.message)).toBe('the file was deleted while it was sent')
  })
})

describe('bytes in S3', () => {
  test('what uploads of ended processes left is removed after an hour, and nothing else', async () => {
    const { s3, blobs } = await openS3('')
    const { folder, store } = await openPostgres()
    const open = (): Promise<Files> =>
      Files.open({ store: store.files, blobs, isShared: true, folder, quotaBytes: 2 ** 30, outputKeepMs: 3_600_000 })
    const first = await open()
    const tokens = await Promise.all(
      Array.from({ length: 5 }, () => first.publish('a', { mediaType: 'a/b', data: bytesOf(10) })),
    )
    const half = await blobs.create()
    await half.write(new Uint8Array(9 * MIB))
    await put(blobs, new Uint8Array(3 * MIB))
    for (const object of s3.objects.values()) object.at -= 2 * 3_600_000
    const young = await put(blobs, bytesOf(5))
    await first.stop()
    const second = await open()
    while (s3.objects.size > 7) await Bun.sleep(5)
    await second.stop()
    const outputs = await Promise.all(tokens.map((token) => second.findOutput(token)))
    expect([...s3.objects.keys()].sort()).toEqual(
      [...outputs.map((output) => `${output!.blob}/0`), `${young}/0`, `new/${young}`].sort(),
    )
    expect([...(await second.bytes(outputs[0]!))]).toEqual([...bytesOf(10)])
  }, 60_000)

  test('the mark of a blob that could not be removed stays', async () => {
    const { s3, blobs } = await openS3('')
    const name = await put(blobs, bytesOf(10))
    const mark = s3.objects.get(`new/${name}`)!
    mark.at -= 2 * 3_600_000
    for await (const names of blobs.names()) {
      expect(names).toEqual([name])
      mark.at += 2 * 3_600_000
    }
    expect(s3.objects.has(`new/${name}`)).toBe(true)
  })

  test('a blob with a damaged part is an error, in memory and in a response', async () => {
    const { s3, blobs } = await openS3('')
    const size = 9 * MIB
    const name = await put(blobs, new Uint8Array(size))
    s3.objects.get(`${name}/1`)!.content = new Uint8Array(100)
    const damaged = 'The content of the file is damaged: a part has 100 bytes instead of 4194304.'
    const messageOf = (answer: Promise<unknown>): Promise<string> =>
      answer.then(
        () => 'read',
        (error: Error) => error.message,
      )
    expect(await messageOf(blobs.read(name, size))).toBe(damaged)
    const response = await blobs.respond(name, size, { range: null, headers: {} })
    expect(await messageOf(response!.bytes())).toBe(damaged)
  })

  test('an upload that is broken off leaves no object', async () => {
    const { s3, blobs } = await openS3()
    const blob = await blobs.create()
    for (let at = 0; at < 40; at += 1) await blob.write(new Uint8Array(MIB))
    expect(s3.objects.size).toBe(11)
    expect(Math.max(...s3.requests.map(({ bytes }) => bytes))).toBe(4 * MIB)
    await blob.discard()
    expect([...s3.objects.keys()]).toEqual([])
  })

  for (const ending of ['deleted', 'expired'])
    test(`the bytes of a file that is ${ending} while the bucket is away are removed by a later process`, async () => {
      const { s3, blobs } = await openS3('')
      const folder = mkdtempSync(join(tmpdir(), 'sluice-blobs-'))
      cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
      let now = Date.now()
      const run = async <T>(use: (files: Files, store: Store) => Promise<T>): Promise<T> => {
        const store = await storeIn(folder)
        const limits = { quotaBytes: 2 ** 30, outputKeepMs: 3_600_000 }
        const files = await Files.open({
          ...{ store: store.files, blobs, isShared: true, folder, now: () => now },
          ...limits,
        })
        try {
          return await use(files, store)
        } finally {
          await files.stop()
          await store.close()
        }
      }
      await run(async (files, store) => {
        const upload = await files.upload('a')
        await upload.write(bytesOf(5 * MIB))
        const details = { filename: 'a', purpose: 'batch', mediaType: 'a/b', metadata: null }
        const { id, blob } = await upload.keep({ ...details, expiresAfterMs: 3_600_000 })
        await upload.discard()
        s3.objects.delete(`new/${blob}`)
        s3.failure = () => fault(503, 'SlowDown')
        if (ending === 'deleted') expect((await files.delete('a', id))?.blob).toBe(blob)
        else now += 3_600_000
        await files.purge()
        expect((await store.files.knownBlobs([blob])).size).toBe(0)
      })
      expect(s3.objects.size).toBe(2)
      now += 3_600_000
      // It is away for the first try of the next process, too.
      await run((files) => files.purge())
      s3.failure = undefined
      await run((files) => files.purge())
      expect(s3.objects.size).toBe(2)
      now += 3_600_000
      await run(async (files, store) => {
        await files.purge()
        expect([...s3.objects.keys()]).toEqual([])
        now += 1e12
        expect(await store.files.takeRemovals(now)).toEqual([])
      })
    })

  test('a server that fails is reported as unavailable, without its text and credentials', async () => {
    const { s3, blobs } = await openS3()
    const name = await put(blobs, bytesOf(10))
    const blob = await blobs.create()
    await blob.write(bytesOf(10))
    s3.failure = () => fault(403, 'AccessDenied')
    const asked = { range: null, headers: {} }
    const problems = [() => blobs.read(name, 10), () => blobs.respond(name, 10, asked), () => blob.keep()]
    for (const problem of problems)
      expect(await problem().catch(({ code, message }: { code: string; message: string }) => [code, message])).toEqual([
        'store_unavailable',
        'The file store is unavailable: its bucket refuses the request (AccessDenied). The operator of this server ' +
          'has to check the name, the key and the policy of the bucket.',
      ])
    expect(await blobs.remove(name).catch(({ code }: { code: string }) => code)).toBe('store_unavailable')
    s3.failure = undefined
    expect(await blobs.read(name, 10)).toBeDefined()
  })

  test('a bucket that cannot be used is an error for the operator when it is opened', async () => {
    const s3 = startS3()
    cleanups.push(() => s3.stop())
    const messageFor = async (bucket: string, env: Record<string, string>): Promise<string> =>
      S3Chunks.open({ location: { bucket, prefix: '' }, env: { ...s3.env, ...env } }).then(
        () => 'opened',
        (error: Error) => error.message,
      )
    expect(await messageFor('files', {})).toBe('opened')
    expect(await messageFor('other', {})).toStartWith('The bucket other of files.store cannot be listed (NoSuchBucket)')
    const wrong = await messageFor('files', { AWS_SECRET_ACCESS_KEY: `${S3_KEY.secret}-wrong` })
    expect(wrong).toContain('(SignatureDoesNotMatch)')
    expect(wrong).not.toContain(S3_KEY.secret)
    expect(await messageFor('files', { AWS_ENDPOINT_URL: 'http://127.0.0.1:9' })).toContain('(ECONNREFUSED)')
    const keyless = await messageFor('files', { AWS_ACCESS_KEY_ID: '' })
    expect(keyless).toContain('set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
  })
})
