import type { Slots } from '../ledger/slots.ts'

/** Pauses between two rounds of asking other processes for slots. */
const PAUSE_MS = 50
const LONGEST_PAUSE_MS = 200
/** The same for a process that has slots: those who wait get them one after the other. */
const LONGEST_PAUSE_WITH_SLOTS_MS = 2_000

/** Requests that wait for slots of an owner. `admit`: lets one of them in; false where no slot or request is left. */
type Waiting = { slots: Slots; owner: string; limit(): number; size(): number; admit(): boolean }

/** Leases slots as long as requests wait for them. */
export async function leaseWhileWaiting({ slots, owner, limit, size, admit }: Waiting): Promise<void> {
  for (let pauseMs = PAUSE_MS; size() > 0; ) {
    // A store that is away is asked again.
    const mayHaveMore = limit() > 0 && (await slots.lease(owner, limit(), size()).catch(() => false))
    let hasAdmitted = false
    while (admit()) hasAdmitted = true
    if (mayHaveMore && hasAdmitted) continue
    await Bun.sleep(pauseMs)
    pauseMs = Math.min(pauseMs * 2, slots.has(owner) ? LONGEST_PAUSE_WITH_SLOTS_MS : LONGEST_PAUSE_MS)
  }
}
