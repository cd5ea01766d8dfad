import { afterEach, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { add, cleanUp, codeOf, facts, onDisk, open } from './opened-files.ts'

afterEach(cleanUp)

describe('the quota', () => {
  test('concurrent uploads never exceed the quota', async () => {
    const opened = await open({ quotaBytes: 1000 })
    const { files, store, folder } = opened
    const one = async (): Promise<string> => {
      const upload = await files.upload('a')
      try {
        for (let times = 0; times < 10; times++) {
          await upload.write(new Uint8Array(19))
          await Bun.sleep(0)
        }
        await upload.keep(facts())
        return 'kept'
      } catch (error) {
        return (error as GatewayError).code
      } finally {
        await upload.discard()
      }
    }
    const ends = await Promise.all(Array.from({ length: 20 }, one))
    const kept = ends.filter((end) => end === 'kept').length
    expect(new Set(ends)).toEqual(new Set(['kept', 'quota_exceeded']))
    expect([await store.files.usage('a'), onDisk(folder).blobs.length, onDisk(folder).uploads]).toEqual([
      { files: kept, bytes: kept * 190 },
      kept,
      [],
    ])
    expect(kept).toBeGreaterThan(0)
    expect(kept).toBeLessThanOrEqual(5)
    // The rest of the quota can be used, and the quota of other accounts, too.
    expect((await add(opened, 'a', 1000 - kept * 190)).bytes).toBe(1000 - kept * 190)
    expect((await add(opened, 'b', 1000)).bytes).toBe(1000)
  })

  test('the bytes of uploads in progress never exceed the quota', async () => {
    const { files, folder } = await open({ quotaBytes: 1000 })
    const [one, two] = [await files.upload('a'), await files.upload('a')]
    await one.write(new Uint8Array(600))
    await two.write(new Uint8Array(400))
    expect(await codeOf(two.write(new Uint8Array(1)))).toBe('quota_exceeded')
    expect(await codeOf(files.upload('a', 1))).toBe('quota_exceeded')
    await two.discard()
    await one.write(new Uint8Array(400))
    await one.keep(facts())
    await one.discard()
    expect(onDisk(folder)).toMatchObject({ blobs: [expect.any(String)], uploads: [] })
  })

  test('deleting a file frees quota for an upload in progress', async () => {
    const opened = await open({ quotaBytes: 1000 })
    const file = await add(opened, 'a', 500)
    const upload = await opened.files.upload('a')
    await upload.write(new Uint8Array(500))
    expect(await codeOf(upload.write(new Uint8Array(500)))).toBe('quota_exceeded')
    await opened.files.delete('a', file.id)
    await upload.write(new Uint8Array(500))
    expect((await upload.keep(facts())).bytes).toBe(1000)
    await upload.discard()
  })

  test('the store enforces the quota, and the error has the usage', async () => {
    const opened = await open({ quotaBytes: 1000 })
    const { files, store, folder } = opened
    const upload = await files.upload('a')
    await upload.write(new Uint8Array(600))
    // A file that the quota in memory does not include.
    expect(
      await store.files.add(
        { ...(await add(opened, 'b', 1)), id: 'file-x', blob: 'x', accountId: 'a', bytes: 500 },
        { files: 10, bytes: 1000 },
      ),
    ).toBe(true)
    const error = await upload.keep(facts()).catch((caught: unknown) => caught as GatewayError)
    await upload.discard()
    expect((error as GatewayError).message).toContain(
      '500 of 1000 bytes used, uploads in progress 600; 1 of 20000 files',
    )
    expect(onDisk(folder).blobs.length).toBe(1)
  })

  test('the number of files is limited, too', async () => {
    const opened = await open({ maxFiles: 3 })
    const uploads = await Promise.all(Array.from({ length: 5 }, () => opened.files.upload('a')))
    const ends = await Promise.all(
      uploads.map(async (upload) => {
        await upload.write(new Uint8Array(1))
        return codeOf(upload.keep(facts())).finally(() => upload.discard())
      }),
    )
    expect(ends.filter((end) => end === 'quota_exceeded').length).toBe(2)
    expect([
      await codeOf(opened.files.upload('a')),
      (await add(opened, 'b', 1)).bytes,
      onDisk(opened.folder).blobs.length,
    ]).toEqual(['quota_exceeded', 1, 4])
  })

  test('an announced size above the quota is refused before the upload begins', async () => {
    const opened = await open({ quotaBytes: 100 })
    await add(opened, 'a', 60)
    expect(await codeOf(opened.files.upload('a', 41))).toBe('quota_exceeded')
    expect(onDisk(opened.folder).uploads).toEqual([])
    const upload = await opened.files.upload('a', 40)
    await upload.write(new Uint8Array(40))
    await upload.keep(facts())
    await upload.discard()
  })
})
