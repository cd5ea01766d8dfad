import { Deadline, deadlines } from '../../deadlines.ts'

/** Returns at once when the signal fires, or has fired. */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const over = (): void => {
      deadlines.clear(deadline)
      signal.removeEventListener('abort', over)
      resolve()
    }
    const deadline = new Deadline({ onDeadline: over })
    deadlines.set(deadline, signal.aborted ? 0 : ms)
    signal.addEventListener('abort', over, { once: true })
  })
