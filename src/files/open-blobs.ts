import type { Config } from '../config/config.ts'
import type { FileStore } from '../config/file-store.ts'
import { ChunkedBlobs } from '../store/chunked-blobs.ts'
import type { BlobStore } from '../store/store.ts'
import { S3Chunks } from './s3-chunks.ts'

/** `stored`: the blobs of the database, if it has any. */
type BlobOptions = { env: Config['env']; stored: BlobStore | undefined; now?: () => number }

/** Opens the store of the bytes of files; undefined for the data folder. Throws an error for the operator. */
export async function openBlobs(store: FileStore, { env, stored, now }: BlobOptions): Promise<BlobStore | undefined> {
  if (typeof store === 'object')
    return new ChunkedBlobs(await S3Chunks.open({ location: store, env, ...(now === undefined ? {} : { now }) }))
  return store === 'postgres' ? stored : undefined
}
