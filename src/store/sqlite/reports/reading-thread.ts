import { GatewayError } from '../../../error.ts'
import { threadModule } from '../../../worker/modules.ts'
import { Thread } from '../../../worker/thread.ts'
import type { Answers } from './reading-worker.ts'

/** The thread ends when it was asked nothing for so long. */
const IDLE_MS = 300_000

export type ReadingThread = Thread<Answers>

/** The reading thread of a database, which begins with the first question. */
export const readingThread = (file: string): ReadingThread =>
  new Thread<Answers>({
    module: threadModule('store/sqlite/reports/reading-worker.ts'),
    idleMs: IDLE_MS,
    failed: unavailable,
    first: { name: 'begin', args: [file] },
  })

const unavailable = (reason: string): GatewayError =>
  new GatewayError('store_unavailable', `The records cannot be read: ${reason}; try again.`, {
    retryAfterSeconds: 5,
    shouldRetry: true,
  })
