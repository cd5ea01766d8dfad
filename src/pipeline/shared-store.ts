import type { AppContext } from '../context.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'

/** Interval at which a process looks for others that have ended. */
const TAKEOVER_EVERY_MS = 3_000

/**
 * Takes over from processes that share the store and have ended. `adopt`: called with deferred generations that go on
 * here, and also where none do. Gives its timer, and a promise that resolves when others have declared this process
 * dead.
 */
export function followProcesses(
  { store, ledger, background }: AppContext,
  adopt: (deferred: OpenGeneration[]) => void,
): { timers: Timer[]; fenced: Promise<void> } {
  const fenced = Promise.withResolvers<void>()
  if (store.leases === undefined) return { timers: [], fenced: fenced.promise }
  store.leases.onFenced(fenced.resolve)
  let isBusy = false
  const takeOver = async (): Promise<void> => {
    if (isBusy) return
    isBusy = true
    try {
      if (await ledger.inherit(adopt)) background.roundSoon()
    } catch {
      // The next round tries again.
    } finally {
      isBusy = false
    }
  }
  void takeOver()
  return { timers: [setInterval(() => void takeOver(), TAKEOVER_EVERY_MS)], fenced: fenced.promise }
}
