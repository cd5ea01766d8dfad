import { afterAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Files } from '../../src/files/files.ts'
import { openStore } from '../../src/store/open.ts'
import type { Store } from '../../src/store/store.ts'
import { databaseFor } from '../postgres/databases.ts'
import { program } from '../program.ts'
import { type S3Server, startS3 } from '../store/s3-server.ts'

setDefaultTimeout(120_000)

const scratch = mkdtempSync(join(tmpdir(), 'sluice-move-files-'))
const s3: S3Server = startS3()
afterAll(async () => {
  await s3.stop()
  rmSync(scratch, { recursive: true, force: true })
})

const MIB = 2 ** 20
/** More than one object, exactly one, a part of one, and many small ones. */
const SIZES = [9 * MIB + 5, 4 * MIB, MIB + 1, 1, ...Array.from({ length: 12 }, (_, at) => 100 + at)]
const CONTENTS = SIZES.map((size, index) => {
  const bytes = new Uint8Array(size)
  for (let at = 0; at < size; at++) bytes[at] = at * 31 + (at >> 11) + index
  return bytes
})
const contentOf = (index: number): Uint8Array => CONTENTS[index]!

type Place = { data: string; config: string; open(): Promise<Store> }

let made = 0

/** A data folder, and a configuration with SQLite, or with PostgreSQL. */
async function newPlace(isPostgres: boolean, more = ''): Promise<Place> {
  const data = join(scratch, `data-${made}`)
  mkdirSync(data)
  const url = isPostgres ? await databaseFor(`move_files_${process.pid}_${made}`, () => true) : undefined
  const config = join(scratch, `config-${made++}.yaml`)
  writeFileSync(config, `${url === undefined ? '' : `store: ${url}\n`}${more}`)
  const postgres = url === undefined ? {} : { postgres: { url, connections: 4, patienceMs: 1_000 } }
  const store = { quotaBytes: Infinity, durability: 'power', reserve: { share: 0, bytes: 0 }, ...postgres } as never
  return { data, config, open: () => openStore({ data, store }, { exclusive: false }) }
}

/** Stores the contents as files, but the last as an output, where `blobs` of the store are. Gives their blobs. */
async function fill(place: Place, isInStore: boolean): Promise<string[]> {
  const store = await place.open()
  const blobs = isInStore ? store.blobs : undefined
  const files = await Files.open({
    ...{ store: store.files, blobs, folder: place.data, quotaBytes: 2 ** 30, outputKeepMs: 3_600_000 },
  })
  const names: string[] = []
  for (const [index] of SIZES.slice(1).entries()) {
    const upload = await files.upload('a')
    await upload.write(contentOf(index))
    const details = { filename: 'a', purpose: 'batch', mediaType: 'a/b', metadata: null, expiresAfterMs: undefined }
    names.push((await upload.keep(details)).blob)
    await upload.discard()
  }
  const token = await files.publish('a', { mediaType: 'a/b', data: contentOf(SIZES.length - 1) })
  names.push((await files.findOutput(token))!.blob)
  await files.stop()
  await store.close()
  return names
}

function move({ data, config }: Place, ...args: string[]) {
  const child = Bun.spawn([program(), 'store', 'move-files', '--data', data, '--config', config, ...args], {
    env: { PATH: process.env.PATH ?? '', HOME: scratch, ...s3.env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const ended = (async () => {
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return { code: await child.exited, out, err }
  })()
  return { child, ended }
}

const moved = async (place: Place, ...args: string[]): Promise<any> => {
  const { code, out, err } = await move(place, ...args, '--json').ended
  expect([code, err]).toEqual([0, expect.not.stringContaining('sluice:')])
  return JSON.parse(out)
}

const inFolder = ({ data }: Place, blob: string): string => join(data, 'files', blob.slice(0, 2), blob)

const inBucket = (prefix: string, blob: string, size: number): Uint8Array =>
  Buffer.concat(
    Array.from({ length: Math.ceil(size / (4 * MIB)) }, (_, n) => s3.objects.get(`${prefix}/${blob}/${n}`)!.content),
  )

const same = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0

/** Every file below a folder, with its content and the time of its last change. */
const snapshot = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .map((path) => `${path} ${Bun.hash(readFileSync(path))} ${statSync(path).mtimeMs}`)
    .sort()

const ALL = { files: SIZES.length, bytes: SIZES.reduce((sum, size) => sum + size, 0), missing: [], damaged: [] }

describe('sluice store move-files', () => {
  test('copies from the folder to a bucket and back, and leaves each as it was', async () => {
    const place = await newPlace(false)
    const blobs = await fill(place, false)
    const before = snapshot(join(place.data, 'files'))
    const to = 's3://files/round'
    expect(await moved(place, '--to', to)).toEqual({ from: 'folder', to, ...ALL, copied: SIZES.length })
    expect(blobs.filter((blob, index) => !same(inBucket('round', blob, SIZES[index]!), contentOf(index)))).toEqual([])
    expect(snapshot(join(place.data, 'files'))).toEqual(before)
    expect(await moved(place, '--to', to)).toMatchObject({ ...ALL, copied: 0 })
    const objects = new Map(s3.objects)
    rmSync(join(place.data, 'files'), { recursive: true })
    expect(await moved(place, '--from', to, '--to', 'folder')).toMatchObject({ ...ALL, copied: SIZES.length })
    expect(blobs.filter((blob, index) => !same(readFileSync(inFolder(place, blob)), contentOf(index)))).toEqual([])
    expect(new Map(s3.objects)).toEqual(objects)
    const { out } = await move(place, '--to', to).ended
    expect(out).toContain(
      `${SIZES.length} files (14.7 MB) are in ${to}, ${SIZES.length} of them before, each read again`,
    )
    expect(out).toContain(`run sluice store move-files --from folder --to ${to} once more`)
  })

  test('copies from PostgreSQL to a bucket and to the folder, and back', async () => {
    const place = await newPlace(true)
    const blobs = await fill(place, true)
    for (const to of ['s3://files/stored', 'folder'])
      expect(await moved(place, '--to', to)).toEqual({ from: 'postgres', to, ...ALL, copied: SIZES.length })
    expect(blobs.filter((blob, index) => !same(inBucket('stored', blob, SIZES[index]!), contentOf(index)))).toEqual([])
    expect(blobs.filter((blob, index) => !same(readFileSync(inFolder(place, blob)), contentOf(index)))).toEqual([])
    const store = await place.open()
    try {
      for (const blob of blobs.slice(0, 3)) await store.blobs!.remove(blob)
      const back = ['--from', 's3://files/stored', '--to', 'postgres']
      expect(await moved(place, ...back)).toMatchObject({ ...ALL, copied: 3 })
      for (const [index, blob] of blobs.entries())
        expect(same((await store.blobs!.read(blob, SIZES[index]!))!, contentOf(index))).toBe(true)
    } finally {
      await store.close()
    }
  })

  test('goes on where it was killed, before a content was written or before it was compared', async () => {
    const place = await newPlace(false)
    const blobs = await fill(place, false)
    const to = ['--to', 's3://files/killed']
    for (const [asked, at] of [
      ['PUT', 1],
      ['PUT', 2],
      ['GET', 1],
      ['PUT', 3],
      ['GET', 3],
      ['PUT', 5],
    ] as const) {
      const started = move(place, ...to)
      let count = 0
      s3.failure = (method, key) => {
        const isContent = !key.includes('/new/') && (method === 'PUT' || s3.objects.has(key))
        if (isContent && method === asked && ++count === at) started.child.kill('SIGKILL')
        return undefined
      }
      expect((await started.ended).code).toBe(137)
    }
    s3.failure = undefined
    const { copied, ...rest } = await moved(place, ...to)
    expect(rest).toMatchObject(ALL)
    expect(copied).toBeGreaterThan(0)
    expect(copied).toBeLessThan(SIZES.length)
    expect(blobs.filter((blob, index) => !same(inBucket('killed', blob, SIZES[index]!), contentOf(index)))).toEqual([])
  })

  test('copies again what is not right in the new store, whatever its size', async () => {
    const place = await newPlace(false)
    const blobs = await fill(place, false)
    const to = ['--to', 's3://files/wrong']
    await moved(place, ...to)
    s3.objects.get(`wrong/${blobs[0]}/1`)!.content = new Uint8Array(4 * MIB)
    s3.objects.get(`wrong/${blobs[1]}/0`)!.content = new Uint8Array(5)
    s3.objects.delete(`wrong/${blobs[0]}/2`)
    s3.objects.get(`wrong/${blobs.at(-1)}/0`)!.content = new Uint8Array(SIZES.at(-1)!)
    expect(await moved(place, ...to)).toMatchObject({ ...ALL, copied: 3 })
    expect(blobs.filter((blob, index) => !same(inBucket('wrong', blob, SIZES[index]!), contentOf(index)))).toEqual([])
  })

  test('does not count a copy that the new store has not kept as it was written', async () => {
    const place = await newPlace(false)
    await fill(place, false)
    s3.failure = (method, key) => {
      const object = s3.objects.get(key)
      if (method === 'GET' && key.endsWith('/0') && object !== undefined)
        object.content = object.content.slice().fill(9)
      return undefined
    }
    const { code, err } = await move(place, '--to', 's3://files/lossy').ended
    s3.failure = undefined
    expect([code, err]).toEqual([1, expect.stringMatching(/the copy of [0-9a-f]{32} is not what was written/)])
  })

  test('reports what the old store does not have, or has damaged, and copies all else', async () => {
    const place = await newPlace(false)
    const blobs = await fill(place, false)
    rmSync(inFolder(place, blobs[3]!))
    writeFileSync(inFolder(place, blobs[4]!), new Uint8Array(SIZES[4]!))
    writeFileSync(inFolder(place, blobs[5]!), new Uint8Array(3))
    const { code, out, err } = await move(place, '--to', 's3://files/some', '--json').ended
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/1 contents are not in folder \(\w{32}\), and 2 contents in folder are damaged/),
    ])
    const lists = { missing: [blobs[3]], damaged: expect.arrayContaining([blobs[4], blobs[5]]) }
    expect(JSON.parse(out)).toMatchObject({ files: SIZES.length - 3, copied: SIZES.length - 3, ...lists })
    expect([...s3.objects.keys()].filter((key) => [4, 5].some((at) => key.includes(`/${blobs[at]}/`)))).toEqual([])
  })

  test('ends with an error while the bucket is away', async () => {
    const place = await newPlace(false)
    await fill(place, false)
    s3.failure = (method) => (method === 'PUT' ? new Response('', { status: 503 }) : undefined)
    const { code, err } = await move(place, '--to', 's3://files/away').ended
    s3.failure = undefined
    expect([code, err]).toEqual([1, expect.stringContaining('its bucket does not answer as it should (status 503)')])
  })

  test.each([
    [[], 'requires --to'],
    [['--to', 'folder'], 'files.store is folder already: name the store that it was before with --from'],
    [['--to', 'postgres'], 'only where it is the database'],
    [['--to', 's3://Bad_Bucket'], '--to must be folder, postgres or s3://bucket/prefix'],
    [['--to', 's3://files/a', '--from', 's3://files/a/'], 'the same store'],
  ])('refuses %j', async (args, message) => {
    const place = await newPlace(false)
    expect(await move(place, ...args).ended).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })
})
