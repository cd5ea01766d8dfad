import type { Places } from '../ledger/places.ts'

/** Pauses between two rounds of asking other processes for places. */
const PAUSE_MS = 50
const LONGEST_PAUSE_MS = 200
/** The same for a process that has places: those who wait get them one after the other. */
const LONGEST_PAUSE_WITH_PLACES_MS = 2_000

/** Requests that wait for places of an owner. `admit`: lets one of them in; false where no place or request is left. */
type Waiting = { places: Places; owner: string; limit(): number; size(): number; admit(): boolean }

/** Leases places as long as requests wait for them. */
export async function leaseWhileWaiting({ places, owner, limit, size, admit }: Waiting): Promise<void> {
  for (let pauseMs = PAUSE_MS; size() > 0; ) {
    // A store that is away is asked again.
    const mayHaveMore = limit() > 0 && (await places.lease(owner, limit(), size()).catch(() => false))
    let hasAdmitted = false
    while (admit()) hasAdmitted = true
    if (mayHaveMore && hasAdmitted) continue
    await Bun.sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 2, places.has(owner) ? LONGEST_PAUSE_WITH_PLACES_MS : LONGEST_PAUSE_MS)
  }
}
