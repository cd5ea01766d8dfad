import type { Config } from './config.ts'
import { FILE_STORES, type FileStoreName } from './terms.ts'

/** Where the bytes of files are stored. */
export type FileStore = Config['files']['store']

/** The texts that `fileStoreOf` takes. */
export const FILE_STORE = new RegExp(
  `^(?:${FILE_STORES.join('|')}|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[\\w./-]{0,200})?)$`,
)

/** `text`: one of FILE_STORES, or `s3://bucket/prefix`. */
export function fileStoreOf(text: string): FileStore {
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)(?:\/(.*?)\/*)?$/.exec(text) ?? []
  return bucket === undefined ? (text as FileStoreName) : { bucket, prefix }
}

export const fileStoreText = (store: FileStore): string =>
  typeof store === 'string' ? store : `s3://${[store.bucket, store.prefix].filter((part) => part !== '').join('/')}`
