// Tests that run over both stores: SQLite, and PostgreSQL. Plain Node, as steps.mjs.
import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { findBun, root } from './install.mjs'
import { runTests } from './steps.mjs'

/** Folders whose tests depend on the store, but for the files of `ONCE`. */
const FOLDERS = ['gateway', 'management', 'predictions', 'ledger', 'routing', 'reports', 'cli'].map(
  (name) => `tests/${name}`,
)

/** Files of these folders that run over SQLite alone, by reason. */
const ONCE = {
  'they are about the files, the disk or the folder of SQLite': [
    'cli/signals',
    'gateway/durability',
    'gateway/replace',
    'gateway/reserve',
    'gateway/rest',
    'gateway/slow-disk',
    'reports/recount',
  ],
  'they open their stores themselves': [
    'cli/move-files',
    'gateway/idempotency-shared',
    'gateway/live-shared',
    'gateway/predictions-shared',
    'gateway/shared-clock',
    'gateway/shared-tries',
    'gateway/workers',
    'ledger/audit-leases',
    'ledger/lease-lane',
    'ledger/lease-recovery',
    'management/logged-once',
    'reports/equal',
    'reports/store',
  ],
  'the store has no part in them, or the same as in the others': [
    'cli/executable',
    'cli/explain',
    'cli/launcher',
    'cli/models',
    'gateway/assumed-limit',
    'gateway/body-limits',
    'gateway/broken-answers',
    'gateway/connections-per-address',
    'gateway/count-tokens',
    'gateway/descriptors',
    'gateway/edges',
    'gateway/error-formats',
    'gateway/extreme-answers',
    'gateway/files-memory',
    'gateway/heavy',
    'gateway/last-frame',
    'gateway/many',
    'gateway/media-urls',
    'gateway/memory',
    'gateway/model-paths',
    'gateway/model-prices',
    'gateway/other-models',
    'gateway/outside',
    'gateway/own-protocol',
    'gateway/pipelining',
    'gateway/prefixes',
    'gateway/provider-credentials',
    'gateway/refusals',
    'gateway/request-log',
    'gateway/route-capabilities',
    'gateway/route-header',
    'gateway/routing-preferences',
    'gateway/sandbox-timeouts',
    'gateway/search-fees',
    'gateway/service-classes',
    'gateway/stalled-client',
    'gateway/tool-fees',
    'gateway/translation',
    'ledger/counted-text',
    'ledger/disputes',
    'ledger/estimate',
    'ledger/meter',
    'ledger/money',
    'ledger/open-generation',
    'ledger/output-speeds',
    'ledger/price-catalog',
    'ledger/price-import',
    'ledger/prices',
    'ledger/rating',
    'ledger/service-classes',
    'ledger/settlement',
    'ledger/wallet',
    'management/amounts',
    'management/answer',
    'management/console',
    'management/explain',
    'management/query-names',
    'management/roles-by-route',
    'management/route',
    'management/slow-body',
    'management/usage',
    'predictions/remote',
    'predictions/work',
    'reports/million',
    'routing/choose',
    'routing/learned',
    'routing/simulation',
    'routing/stickiness',
  ],
}

const once = Object.values(ONCE).flatMap((names) => names.map((name) => `tests/${name}.test.ts`))

/** These tests run beside all tests over SQLite, and wait for their server and for timers half of the time. */
const WORKERS = availableParallelism()

/**
 * Runs what depends on the store over PostgreSQL; skipped where it cannot start. `print` and `args`: as for
 * `runTests`.
 */
export async function runTestsOnPostgres(print, args) {
  const isPath = (arg, index) => !arg.startsWith('-') && !NAMED.includes(args[index - 1])
  const given = args.filter(isPath)
  const paths = given.length === 0 ? FOLDERS : [...new Set(given.flatMap(dependingOnStore))]
  if (paths.length === 0) return { passed: 0, failed: 0, skipped: 0 }
  if (!canStart(print)) return { passed: 0, failed: 0, skipped: 1 }
  const options = args.filter((arg, index) => !isPath(arg, index))
  const ignored = once.map((path) => `--path-ignore-patterns=${path}`)
  const env = { SLUICE_TEST_STORE: 'postgres' }
  const chosen = [...options, ...ignored, ...paths.map((path) => `./${path}`)]
  return runTests(print, chosen, { env, store: 'postgres', workers: WORKERS, mayBeNone: true })
}

/** Options whose value is the next word. */
const NAMED = ['-t', '--test-name-pattern']

/** The parts of a path whose tests depend on the store. */
function dependingOnStore(given) {
  const path = given.replace(/^\.\//, '').replace(/\/$/, '')
  if (once.includes(path)) return []
  if (FOLDERS.some((folder) => path === folder || path.startsWith(`${folder}/`))) return [path]
  return FOLDERS.filter((folder) => folder.startsWith(`${path}/`))
}

function canStart(print) {
  const { status, stderr } = spawnSync(findBun(), ['--no-install', 'tests/postgres/try.ts'], { cwd: root })
  if (status !== 0) print(`PostgreSQL does not start here: ${String(stderr).trim().split('\n').at(-1)}\n`)
  return status === 0
}
