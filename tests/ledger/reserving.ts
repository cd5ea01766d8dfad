import { newSubscription } from '../../src/accounts/subscription.ts'
import { topUp } from '../../src/ledger/book.ts'
import type { ReservationRequest, OpenGeneration } from '../../src/ledger/ledger.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { Rig } from './rig.ts'
import { runs } from '../runs.ts'
import { ON_POSTGRES } from '../stores.ts'
import { accountOf } from '../store/account.ts'

/** Reservations of an account, one cent each, in a ledger of its own. */

export const MILLI = 1_000_000n
export const CLIENTS = 64
/** A store of PostgreSQL takes several times as long as one of SQLite. */
export const RUNS = ON_POSTGRES ? runs(4, 10) : 10

/** A request costs one cent, whatever it uses; a flow is worth one cent. */
export const REQUEST: Omit<ReservationRequest, 'id'> = {
  accountId: 'a',
  keyId: 'k',
  kind: 'pay-as-you-go',
  api: 'chat.completions',
  model: 'm',
  createdAt: 1,
  streamed: false,
  discount: 0,
  penalty: 1,
  price: {
    version: '1',
    model: 'm',
    rates: { request: { base: 10n * MILLI, tiers: [] }, completion: { base: 1_000_000n * MILLI, tiers: [] } },
  },
  worst: noUsage(),
}

type Options = { cents?: number; flows?: number; policy?: 'cut' | 'finish'; overdraft?: bigint }

export async function withRig(options: Options, check: (rig: Rig) => Promise<void>): Promise<void> {
  const most = options.flows ?? 1_000
  const flows = { '5_hour': most, '7_day': 1_000, monthly: 1_000 }
  const { policy: payAsYouGo = 'cut' } = options
  const rig = new Rig(
    options.overdraft ?? 0n,
    { usdPerFlow: 0.01, tiers: [['free', { usdPerMonth: 0, flows, discount: 0 }]] },
    { payAsYouGo, subscription: 'finish' },
  )
  try {
    await rig.open()
    const amount = BigInt(options.cents ?? 1_000) * 10n * MILLI
    const money = amount === 0n ? [] : [topUp({ reference: 'start', at: 1, accountId: 'a', amount, bonus: false })]
    await rig.other.accounts.add(accountOf('a'), newSubscription('a', 'free', rig.now), money)
    await rig.ledger.load()
    await check(rig)
  } finally {
    await rig.close()
  }
}

let ids = 0
export const admit = (rig: Rig, more: Partial<ReservationRequest> = {}): OpenGeneration =>
  rig.ledger.reserve({ ...REQUEST, createdAt: rig.now, id: String(++ids).padStart(32, '0'), ...more }, () =>
    Promise.resolve(0),
  )

/** Reservations at the same moment, each after some turns of the event loop; gives those admitted. */
export async function admitAll(
  rig: Rig,
  turns: number[],
  more: Partial<ReservationRequest>,
): Promise<OpenGeneration[]> {
  const open: OpenGeneration[] = []
  await Promise.allSettled(
    turns.map(async (count) => {
      for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
      open.push(admit(rig, more))
    }),
  )
  return open
}
