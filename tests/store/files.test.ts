import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Files } from '../../src/files/files.ts'
import type { StoredFile, StoredOutput } from '../../src/store/store.ts'
import { overriding } from './overriding.ts'
import { add, cleanUp, cleanups, codeOf, facts, onDisk, open } from './opened-files.ts'

afterEach(cleanUp)

test('the contents of files and outputs are listed once each, in the order of their blobs', async () => {
  const opened = await open({ quotaBytes: 1_000_000 })
  const { files, store } = opened
  const file = await add(opened, 'a', 3)
  const sum = new Bun.CryptoHasher('sha256').update(new Uint8Array(3).fill(7)).digest('hex')
  const output = (index: number) => ({ token: `token-${index}`, accountId: 'b', mediaType: 'a/b', expiresAt: 1 })
  for (let index = 0; index < 450; index++)
    await store.files.addOutput({ ...output(index), blob: index.toString(16).padStart(32, '0'), bytes: index })
  const listed: unknown[] = []
  let pages = 0
  for (let after = ''; ; pages++) {
    const page = await store.files.contents(after)
    if (page.length === 0) break
    listed.push(...page.map(({ blob, bytes, sha256 }) => `${blob} ${bytes} ${sha256}`))
    after = page.at(-1)!.blob
  }
  const outputs = Array.from({ length: 450 }, (_, index) => `${index.toString(16).padStart(32, '0')} ${index} null`)
  expect(listed).toEqual([...outputs, `${file.blob} 3 ${sum}`].sort())
  expect(pages).toBeGreaterThan(1)
  expect(await store.files.contentUsage()).toEqual({ files: 451, bytes: (449 * 450) / 2 + 3 })
  await files.stop()
})

describe('a file', () => {
  test('a file is read as it was written, by its account only', async () => {
    const opened = await open()
    const { files, folder, clock } = opened
    const upload = await files.upload('a')
    await upload.write(Buffer.from('Hel'))
    await upload.write(Buffer.from('lo'))
    expect(onDisk(folder)).toMatchObject({ blobs: [], uploads: [expect.stringMatching(/^[0-9a-f]{32}$/)] })
    const file = await upload.keep(facts({ metadata: '{"a":1}' }))
    await upload.discard()
    expect(file).toEqual({
      id: expect.stringMatching(/^file-[0-9a-f]{32}$/),
      accountId: 'a',
      blob: expect.stringMatching(/^[0-9a-f]{32}$/),
      filename: 'a.txt',
      purpose: 'user_data',
      bytes: 5,
      mediaType: 'text/plain',
      sha256: '185f8db32271fe25f561a6fc938b2e264306ec304eda518007d1764826381969',
      metadata: '{"a":1}',
      createdAt: clock.now,
      expiresAt: null,
    })
    expect(await files.find('a', file.id)).toEqual(file)
    expect(await files.find('b', file.id)).toBeUndefined()
    expect(new TextDecoder().decode(await files.bytes(file))).toBe('Hello')
    expect(onDisk(folder)).toEqual({ blobs: [file.blob], uploads: [] })
    const path = join(folder, 'files', file.blob.slice(0, 2), file.blob)
    expect([
      statSync(path).mode & 0o777,
      statSync(join(path, '..')).mode & 0o777,
      statSync(join(folder, 'files')).mode & 0o777,
    ]).toEqual([0o600, 0o700, 0o700])
  })

  test('a discarded upload leaves nothing and uses no quota', async () => {
    const opened = await open({ quotaBytes: 100 })
    for (let times = 0; times < 3; times++) {
      const upload = await opened.files.upload('a')
      await upload.write(new Uint8Array(100))
      await upload.discard()
    }
    expect(onDisk(opened.folder)).toEqual({ blobs: [], uploads: [] })
    expect((await add(opened, 'a', 100)).bytes).toBe(100)
  })

  test('a deleted file is unknown, its bytes are gone and its quota is free', async () => {
    const opened = await open({ quotaBytes: 100 })
    const file = await add(opened, 'a', 100)
    expect(await opened.files.delete('b', file.id)).toBeUndefined()
    expect(await codeOf(add(opened, 'a', 1))).toBe('quota_exceeded')
    expect(await opened.files.delete('a', file.id)).toEqual(file)
    expect(await opened.files.delete('a', file.id)).toBeUndefined()
    expect([
      await opened.files.find('a', file.id),
      await codeOf(opened.files.bytes(file)),
      onDisk(opened.folder).blobs,
    ]).toEqual([undefined, 'not_found', []])
    expect((await add(opened, 'a', 100)).bytes).toBe(100)
  })

  test('a file that cannot be read is not reported as deleted', async () => {
    const opened = await open()
    const file = await add(opened, 'a', 1)
    const path = join(opened.folder, 'files', file.blob.slice(0, 2), file.blob)
    rmSync(path)
    expect(await codeOf(opened.files.bytes(file))).toBe('not_found')
    mkdirSync(path)
    expect(await codeOf(opened.files.bytes(file))).toBe('store_unavailable')
  })

  test('an expired file is unknown before the purge, and removed by it', async () => {
    const opened = await open({ quotaBytes: 100 })
    const { files, store, clock, folder } = opened
    const file = await add(opened, 'a', 100, { expiresAfterMs: 3_600_000 })
    clock.now += 3_599_999
    expect(await files.find('a', file.id)).toEqual(file)
    await files.purge()
    clock.now += 1
    expect([await files.find('a', file.id), await files.delete('a', file.id)]).toEqual([undefined, undefined])
    expect(await store.files.list('a', { limit: 10, order: 'asc', now: clock.now })).toEqual([])
    expect(onDisk(folder).blobs).toEqual([file.blob])
    // Its quota is free at once.
    const next = await add(opened, 'a', 100)
    await files.purge()
    expect(onDisk(folder).blobs).toEqual([next.blob])
  })
})

test('the blob of a deleted file is due again after waits that double up to an hour, until it is gone', async () => {
  const { store, clock } = await open()
  await store.files.addOutput({ token: 't', accountId: 'a', blob: 'x', mediaType: 'a/b', bytes: 1, expiresAt: 1 })
  await store.files.purge(clock.now)
  const waits: number[] = []
  for (let tries = 0; tries < 9; tries++) {
    let waited = 0
    for (; (await store.files.takeRemovals(clock.now)).length === 0; waited++) clock.now += 60_000
    waits.push(waited)
  }
  expect(waits).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60])
  await store.files.endRemovals(['x'])
  expect(await store.files.takeRemovals(clock.now + 1e12)).toEqual([])
})

describe('an output', () => {
  test('an output is found by its token until it expires', async () => {
    const { files, clock, folder } = await open()
    const token = await files.publish('a', { mediaType: 'image/png', data: Uint8Array.of(1, 2, 3) })
    expect(token).toMatch(/^[\w-]{43}$/)
    const output = (await files.findOutput(token))!
    expect(output).toEqual({
      token,
      accountId: 'a',
      blob: onDisk(folder).blobs[0]!,
      mediaType: 'image/png',
      bytes: 3,
      expiresAt: clock.now + 60_000,
    })
    expect([...(await files.bytes(output))]).toEqual([1, 2, 3])
    clock.now += 60_000
    expect(await files.findOutput(token)).toBeUndefined()
    await files.purge()
    expect(onDisk(folder)).toEqual({ blobs: [], uploads: [] })
  })
})

describe('a start', () => {
  test('a start removes incomplete uploads and blobs without a row, and nothing else', async () => {
    const first = await open()
    const { folder } = first
    const file = await add(first, 'a', 5)
    const token = await first.files.publish('a', { mediaType: 'image/png', data: new Uint8Array(5) })
    await cleanups.pop()!()
    const root = join(folder, 'files')
    const orphan = 'ab'.repeat(16)
    mkdirSync(join(root, 'ab'), { recursive: true })
    for (const path of [`ab/${orphan}`, `uploads/${orphan}`, 'ab/readme.txt']) writeFileSync(join(root, path), 'left')
    const { files } = await open({ folder })
    expect(onDisk(folder).uploads).toEqual([])
    // Files that are added meanwhile remain.
    const published = await Promise.all(
      Array.from({ length: 50 }, () => files.publish('a', { mediaType: 'image/png', data: new Uint8Array(5) })),
    )
    while (existsSync(join(root, 'ab', orphan))) await Bun.sleep(5)
    await files.stop()
    expect(onDisk(folder).blobs.length).toBe(50 + 3)
    for (const output of await Promise.all([token, ...published].map((one) => files.findOutput(one))))
      expect((await files.bytes(output!)).length).toBe(5)
    expect((await files.bytes((await files.find('a', file.id))!)).length).toBe(5)
  })
})

test('a start does not remove a blob whose row is being written', async () => {
  const { folder, store } = await open()
  const orphans = Array.from({ length: 256 }, (_, index) => index.toString(16).padStart(2, '0').repeat(16))
  for (const orphan of orphans) await Bun.write(join(folder, 'files', orphan.slice(0, 2), orphan), 'left')
  const placed = Promise.withResolvers<void>()
  const slow = overriding(store, () => ({
    'files.knownBlobs': async (blobs: string[]) => {
      await placed.promise
      return store.files.knownBlobs(blobs)
    },
    'files.addOutput': async (output: StoredOutput) => {
      placed.resolve()
      while (onDisk(folder).blobs.length > 1) await Bun.sleep(5)
      return store.files.addOutput(output)
    },
  }))
  const files = await Files.open({ store: slow.files, folder, quotaBytes: 1000, outputKeepMs: 60_000 })
  const token = await files.publish('a', { mediaType: 'image/png', data: Uint8Array.of(1) })
  expect([...(await files.bytes((await files.findOutput(token))!))]).toEqual([1])
  await files.stop()
})

describe('a listing', () => {
  test('a listing has each file of the account once, in either order, at any page size', async () => {
    const opened = await open({ quotaBytes: 10_000 })
    const { files, clock } = opened
    const made: StoredFile[] = []
    for (let index = 0; index < 12; index++) {
      // Some at the same instant.
      if (index % 3 === 0) clock.now += 1
      made.push(await add(opened, 'a', 1, { purpose: index % 2 === 0 ? 'vision' : 'batch' }))
      await add(opened, 'b', 1)
    }
    for (const [order, limit, purpose] of [
      ['asc', 5, undefined],
      ['desc', 1, undefined],
      ['desc', 12, undefined],
      ['asc', 2, 'vision'],
      ['desc', 4, 'batch'],
    ] as const) {
      const ids: string[] = []
      for (;;) {
        const page = (await files.list('a', { limit, order, purpose, after: ids.at(-1) }))!
        ids.push(...page.map(({ id }) => id))
        if (page.length < limit) break
      }
      const expected = made
        .filter((file) => purpose === undefined || file.purpose === purpose)
        .toSorted((x, y) => x.createdAt - y.createdAt || (x.id < y.id ? -1 : 1))
        .map(({ id }) => id)
      expect([order, limit, ids]).toEqual([order, limit, order === 'asc' ? expected : expected.toReversed()])
    }
    expect(await files.list('a', { limit: 1, order: 'asc', after: 'file-none' })).toBeUndefined()
  })
})
