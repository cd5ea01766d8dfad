import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import { Files } from '../../src/files/files.ts'
import type { FileDetails } from '../../src/files/upload.ts'
import type { Store, StoredFile } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Files over a store of their own, closed and removed after each test. */

export const cleanups: (() => unknown)[] = []

export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
}

type Opened = { files: Files; store: Store; folder: string; clock: { now: number } }

export async function open({
  quotaBytes = 1000,
  maxFiles = 20_000,
  folder,
}: {
  quotaBytes?: number
  maxFiles?: number
  folder?: string
} = {}): Promise<Opened> {
  const made = folder ?? mkdtempSync(join(tmpdir(), 'sluice-files-'))
  if (folder === undefined) cleanups.push(() => rmSync(made, { recursive: true, force: true }))
  const clock = { now: 1_700_000_000_000 }
  const store = await storeIn(made)
  const files = await Files.open({
    store: store.files,
    folder: made,
    quotaBytes,
    maxFiles,
    outputKeepMs: 60_000,
    now: () => clock.now,
  })
  cleanups.push(async () => {
    await files.stop()
    await store.close()
  })
  return { files, store, folder: made, clock }
}

export const facts = (over: Partial<FileDetails> = {}): FileDetails => ({
  filename: 'a.txt',
  purpose: 'user_data',
  mediaType: 'text/plain',
  metadata: null,
  expiresAfterMs: undefined,
  ...over,
})

export async function add(
  { files }: Opened,
  accountId: string,
  bytes: number,
  over: Partial<FileDetails> = {},
): Promise<StoredFile> {
  const upload = await files.upload(accountId)
  try {
    await upload.write(new Uint8Array(bytes).fill(7))
    return await upload.keep(facts(over))
  } finally {
    await upload.discard()
  }
}

/** The names of the blobs and of the unfinished uploads. */
export function onDisk(folder: string): { blobs: string[]; uploads: string[] } {
  const root = join(folder, 'files')
  const folders = readdirSync(root).filter((name) => name !== 'uploads')
  return {
    blobs: folders.flatMap((name) => readdirSync(join(root, name))).sort(),
    uploads: readdirSync(join(root, 'uploads')),
  }
}

export const codeOf = async (failing: Promise<unknown>): Promise<string> => {
  const error = await failing.then(
    () => undefined,
    (caught: unknown) => caught,
  )
  return error instanceof GatewayError ? error.code : `${error}`
}
