import type { Database } from 'bun:sqlite'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { CHUNK_BYTES } from '../postgres/blob-table.ts'
import type { Queries } from '../postgres/client.ts'

const BLOBS = 'SELECT blob FROM files UNION SELECT blob FROM outputs'

/** `missing`: files and outputs whose content is not in the folder. */
export type MovedFiles = { files: number; missing: number }

/** Copies the contents of files and outputs, those that are there already excepted, in pieces. */
export async function copyFiles(
  database: Database,
  target: Queries,
  folder: string,
  onFile: (done: number, isEnd: boolean) => void,
): Promise<MovedFiles> {
  // Those of an attempt before whose file was deleted since.
  await target.run(`DELETE FROM blob_chunks WHERE name NOT IN (${BLOBS})`)
  const moved = { files: 0, missing: 0 }
  for (const { blob } of database.query(BLOBS).iterate() as IterableIterator<{ blob: string }>) {
    const content = await open(join(folder, 'files', blob.slice(0, 2), blob), 'r').catch(missing)
    if (content === undefined) moved.missing += 1
    else {
      await copyContent(content, target, blob).finally(() => content.close())
      moved.files += 1
      onFile(moved.files, false)
    }
  }
  onFile(moved.files, true)
  return moved
}

/** Contents never change: one of the same size is the same. */
async function copyContent(content: FileHandle, target: Queries, blob: string): Promise<void> {
  const { size } = await content.stat()
  const sizeOf = async (): Promise<number> =>
    (await target.one<{ size: number }>(
      'SELECT coalesce(sum(length(content)), 0) AS size FROM blob_chunks WHERE name = $1',
      blob,
    ))!.size
  if ((await sizeOf()) === size) return
  await target.run('DELETE FROM blob_chunks WHERE name = $1', blob)
  const chunk = new Uint8Array(CHUNK_BYTES)
  for (let number = 0; number * CHUNK_BYTES < size; number++) {
    const length = Math.min(CHUNK_BYTES, size - number * CHUNK_BYTES)
    for (let at = 0; at < length; ) {
      const { bytesRead } = await content.read(chunk, at, length - at)
      if (bytesRead === 0) throw new Error(`the content ${blob} became shorter while it was read`)
      at += bytesRead
    }
    await target.run(
      'INSERT INTO blob_chunks (name, number, content) VALUES ($1, $2, $3)',
      ...[blob, number, chunk.subarray(0, length)],
    )
  }
  const copied = await sizeOf()
  if (copied !== size) throw new Error(`the content ${blob} must have ${size} bytes, but has ${copied}`)
}

function missing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
