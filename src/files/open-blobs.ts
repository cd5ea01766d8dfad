import type { Config } from '../config/config.ts'
import { ChunkedBlobs } from '../store/chunked-blobs.ts'
import type { BlobStore } from '../store/store.ts'
import { S3Chunks } from './s3-chunks.ts'

/** `stored`: the blobs of the store, if it has any. */
type PlaceOptions = { env: Config['env']; stored: BlobStore | undefined; now?: () => number }

/** Opens a place of the bytes of files; undefined for the data folder. Throws an error for the operator. */
export async function openBlobs(
  place: Config['files']['store'],
  { env, stored, now }: PlaceOptions,
): Promise<BlobStore | undefined> {
  if (typeof place === 'object')
    return new ChunkedBlobs(await S3Chunks.open({ location: place, env, ...(now === undefined ? {} : { now }) }))
  return place === 'postgres' ? stored : undefined
}
