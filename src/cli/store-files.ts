import { join } from 'node:path'
import type { Config } from '../config/load.ts'
import { FILE_STORE, type FileStore, fileStoreOf, fileStoreText } from '../config/file-store.ts'
import { FolderBlobs } from '../files/blobs.ts'
import { moveContents, type MovedContents } from '../files/move-contents.ts'
import { openBlobs } from '../files/open-blobs.ts'
import { closeIdle } from '../http/connection.ts'
import { openStore } from '../store/open.ts'
import type { BlobStore, FileUsage, Store } from '../store/store.ts'
import { type Given, UsageError } from './command.ts'
import { megabytes } from './amounts.ts'
import { configOf } from './serve.ts'
import { requireDatabase } from './store.ts'

/** Copies the bytes of files to another store, checks them there, and says what is to be done next. */
export async function moveFiles(given: Given): Promise<void> {
  const config = configOf(given)
  const [from, to] = storesOf(given, config)
  if (config.store.postgres === undefined) requireDatabase(config.data)
  const store = await openStore(config, { exclusive: false })
  try {
    const source = await open(from, config, store, FolderBlobs.in)
    const target = await open(to, config, store, (folder) => FolderBlobs.open(folder, true))
    const moved = await moveContents({ store: store.files, source, target, onProgress: progress() })
    report(given, moved, fileStoreText(from), fileStoreText(to))
  } finally {
    closeIdle()
    await store.close()
  }
}

function storesOf(given: Given, { files, store }: Config): [from: FileStore, to: FileStore] {
  const text = given.text('to')
  if (text === undefined) throw new UsageError('sluice store move-files requires --to folder, postgres or s3://bucket')
  const named = given.text('from')
  const [from, to] = [named === undefined ? files.store : storeOf('from', named), storeOf('to', text)]
  if (fileStoreText(from) === fileStoreText(to))
    throw new UsageError(
      named === undefined
        ? `files.store is ${fileStoreText(to)} already: name the store that it was before with --from`
        : '--from and --to are the same store',
    )
  if ([from, to].includes('postgres') && store.postgres === undefined)
    throw new UsageError('postgres stores files only where it is the database: sluice store migrate moves both')
  return [from, to]
}

function storeOf(option: string, text: string): FileStore {
  if (!FILE_STORE.test(text)) throw new UsageError(`--${option} must be folder, postgres or s3://bucket/prefix`)
  return fileStoreOf(text)
}

async function open(
  fileStore: FileStore,
  { data, env }: Config,
  { blobs: stored }: Store,
  openFolder: (folder: string) => BlobStore | Promise<BlobStore>,
): Promise<BlobStore> {
  return (await openBlobs(fileStore, { env, stored })) ?? openFolder(join(data, 'files'))
}

const REPORT_MS = 1_000

/** Writes how far the copy is to stderr, each second. */
function progress(): (done: Readonly<FileUsage>, all: FileUsage) => void {
  let reportedAt = performance.now()
  return (done, all) => {
    if (performance.now() - reportedAt < REPORT_MS) return
    reportedAt = performance.now()
    console.error(`files: ${done.files} of ${all.files}, ${megabytes(done.bytes)} of ${megabytes(all.bytes)}`)
  }
}

function report(given: Given, { missing, damaged, ...moved }: MovedContents, from: string, to: string): void {
  if (given.on('json')) console.log(JSON.stringify({ from, to, ...moved, missing, damaged }))
  else {
    const { files, bytes, copied } = moved
    const there = files === copied ? '' : `, ${files - copied} of them before`
    console.log(
      `${files} files (${megabytes(bytes)}) are in ${to}${there}, each read again and compared. ${from} is as it was.`,
    )
  }
  const problems = [
    ...(missing.length === 0 ? [] : [`${missing.length} contents are not in ${from} (${someOf(missing)})`]),
    ...(damaged.length === 0
      ? []
      : [`${damaged.length} contents in ${from} are damaged or cannot be read (${someOf(damaged)})`]),
  ]
  if (problems.length > 0) throw new Error(`${problems.join(', and ')}: these were not copied`)
  if (!given.on('json'))
    console.log(
      `Next: set files.store to ${to} in sluice.yaml and restart every process. For files that were stored ` +
        `meanwhile, run sluice store move-files --from ${from} --to ${to} once more.`,
    )
}

const SHOWN = 5

const someOf = (blobs: readonly string[]): string =>
  [...blobs.slice(0, SHOWN), ...(blobs.length > SHOWN ? [`${blobs.length - SHOWN} more; --json has all`] : [])].join(
    ', ',
  )
