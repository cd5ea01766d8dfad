import { BATCH_ROWS } from './batch-rows.ts'
import type { Connection } from './connection.ts'

/** Free bytes that stay in the file, to be used again: these, and a share of the file. */
const KEPT_BYTES = 16 * 2 ** 20
const KEPT_SHARE = 0.1
/** Pause between two steps, in which requests are served. */
const PAUSE_MS = 10

/**
 * Gives free pages back to the disk, a few in each transaction, until only those that are soon used again are left. An
 * older database does not support it; its free pages are used again. `isStopped`: asked between two steps.
 */
export async function shrink(connection: Connection, isStopped: () => boolean): Promise<void> {
  const isIncremental = connection.one<{ auto_vacuum: number }>('PRAGMA auto_vacuum')?.auto_vacuum === 2
  let hasShrunk = false
  while (isIncremental && !isStopped() && hasExcess(connection)) {
    await connection.commit(() => connection.all(`PRAGMA incremental_vacuum(${BATCH_ROWS})`))
    hasShrunk = true
    await Bun.sleep(PAUSE_MS)
  }
  // The file becomes shorter when the log is copied into it.
  if (hasShrunk && !isStopped()) connection.all('PRAGMA wal_checkpoint(PASSIVE)')
}

function hasExcess(connection: Connection): boolean {
  const { free, length } = connection.pages()
  return free > KEPT_BYTES + length * KEPT_SHARE
}
