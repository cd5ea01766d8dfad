import type { Clock } from '../../accounts/clock.ts'
import { Permits } from '../../accounts/permits.ts'
import type { Config } from '../../config/load.ts'
import type { Ledger } from '../../ledger/ledger.ts'
import type { Prices } from '../../ledger/prices.ts'
import type { Catalogue } from '../../providers/catalogue.ts'
import type { Router } from '../../providers/routing/router.ts'
import type { Store } from '../../store/store.ts'
import { Concurrency } from '../concurrency.ts'
import { openRouter } from '../routing.ts'
import { CandidateFinder } from './candidates.ts'

type Modules = { config: Config; catalogue: Catalogue; prices: Prices; ledger: Ledger; store: Store; clock: Clock }

/** The modules that find endpoints for requests. */
export async function openRouting({ config, catalogue, prices, ledger, store, clock }: Modules): Promise<{
  catalogue: Catalogue
  prices: Prices
  router: Router
  candidates: CandidateFinder
  concurrency: Concurrency
}> {
  const router = await openRouter(config, prices, store, clock)
  return {
    catalogue,
    prices,
    router,
    candidates: new CandidateFinder({ catalogue, config, prices }),
    concurrency: new Concurrency({
      config,
      funds: ledger.funds,
      slots: ledger.slots,
      permits: store.leases && new Permits(store.leases),
      router,
    }),
  }
}
