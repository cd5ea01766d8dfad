import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AbuseDetection } from '../../src/accounts/abuse-detection.ts'
import { SteadyClock } from '../../src/accounts/clock.ts'
import { Keys } from '../../src/accounts/keys.ts'
import { Limits } from '../../src/accounts/limits.ts'
import { openPeople } from '../../src/accounts/people.ts'
import { Plans } from '../../src/accounts/plans.ts'
import { loadConfig } from '../../src/config/load.ts'
import { MemoryBudget } from '../../src/http/memory-budget.ts'
import { Ledger } from '../../src/ledger/ledger.ts'
import { ConversationMemory } from '../../src/protocols/conversation-memory.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { Prices } from '../../src/ledger/prices.ts'
import { ServiceClasses } from '../../src/ledger/service-classes.ts'
import { Bodies } from '../../src/pipeline/bodies/bodies.ts'
import { BackgroundResponses } from '../../src/pipeline/background.ts'
import { Idempotency } from '../../src/pipeline/idempotency.ts'
import { InFlightRequests } from '../../src/pipeline/in-flight.ts'
import { KeptQuota } from '../../src/pipeline/kept-quota.ts'
import { IssuedIds } from '../../src/pipeline/issued-ids.ts'
import { MediaLoader } from '../../src/pipeline/media-load.ts'
import { MediaResolver } from '../../src/pipeline/media.ts'
import { accountsOf } from '../../src/ledger/starting-credit.ts'
import { openRouting } from '../../src/pipeline/routing/open.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'
import { Tail } from '../../src/pipeline/tail.ts'
import { RefusalLog } from '../../src/pipeline/refusal-log.ts'
import { RunTimeSettings } from '../../src/pipeline/settings/run-time-settings.ts'
import { ReasoningReplay } from '../../src/pipeline/reasoning-replay.ts'
import { RequestCounts } from '../../src/pipeline/request-counts.ts'
import { otlpSettings } from '../../src/telemetry/otlp-settings.ts'
import type { AppContext } from '../../src/context.ts'
import { Files } from '../../src/files/files.ts'
import type { Store } from '../../src/store/store.ts'
import { overriding, type Overrides } from '../store/overriding.ts'
import { storeIn } from '../stores.ts'

type InProcess = { plain: Store; app: AppContext; headers: Record<string, string> }

/**
 * A gateway in this process, some of whose store methods are replaced. `text`: its sluice.yaml; `failing`: the
 * replacements, evaluated at each call; `headers`: for requests with its first key.
 */
export async function inProcessGateway(
  folder: string,
  text: string,
  failing: () => Overrides,
  now?: () => number,
): Promise<InProcess> {
  const file = join(folder, 'test-config.yaml')
  writeFileSync(file, text)
  const config = loadConfig({ file, data: folder }, {})
  const clock = new SteadyClock()
  const plain = await storeIn(folder, { exclusive: true })
  const store = overriding(plain, failing)
  const keys = await Keys.open({ store, accounts: accountsOf(store, config), folder })
  const [first] = await keys.start()
  const prices = new Prices(config)
  const ledger = await Ledger.open({ store, prices, plans: new Plans(config), ...config.billing })
  const issuedIds = new IssuedIds(store, now ?? Date.now)
  const files = await Files.open({
    store: store.files,
    blobs: plain.blobs,
    folder,
    quotaBytes: config.files.quotaBytes,
    outputKeepMs: config.files.outputKeepMs,
  })
  const { kept, space } = plain
  const abuseDetection = new AbuseDetection(config.accountStatus, now)
  const catalogue = new Catalogue(config)
  const routing = await openRouting({ config, catalogue, prices, ledger, store, clock })
  const memory = new MemoryBudget(2 ** 30)
  const refusals = new RefusalLog(store.reports)
  const app = {
    config,
    clock,
    idempotency: new Idempotency({ store, clock, config, memory }),
    store,
    space,
    keptQuota: new KeptQuota({ kept, ledger, config, space }),
    files,
    keys,
    people: openPeople(store, now ?? Date.now),
    limits: new Limits(),
    abuseDetection,
    ...routing,
    serviceClasses: new ServiceClasses(config),
    schemaCache: new SchemaCache(),
    conversations: new ConversationMemory(config.limits.conversationBytes),
    ledger,
    reasoningReplay: await ReasoningReplay.open(store, 0),
    issuedIds,
    media: new MediaResolver({
      candidates: routing.candidates,
      config,
      loader: new MediaLoader({ config, files }),
      issuedIds,
    }),
    memory,
    background: new BackgroundResponses({ catalogue, config, ledger, store, issuedIds, clock }),
    inFlight: new InFlightRequests(0),
    bodies: await Bodies.open({ config, store, keys, clock }),
    counts: new RequestCounts(false),
    refusals,
    tail: new Tail({ ledger, refusals }),
    otlp: otlpSettings({}),
    tracing: undefined,
    draining: false,
  }
  const headers = { host: 'sluice', authorization: `Bearer ${first?.text}` }
  return { plain, app: await RunTimeSettings.addedTo(app), headers }
}
