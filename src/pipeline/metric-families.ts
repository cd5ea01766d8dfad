import { version } from '../../package.json'
import type { AppContext } from '../context.ts'
import { deadlines } from '../deadlines.ts'
import { descriptorCount } from '../http/accepted-sockets.ts'
import { log } from '../log/log.ts'
import type { Family, Sample } from '../telemetry/family.ts'
import { LoopDelay } from '../telemetry/loop-delay.ts'
import type { ModelCounts } from './generation-counts.ts'

const NANO_PER_USD = 1e9
/** The event loop is that of the process. */
const loopDelay = new LoopDelay()

/** All metrics of a server. */
export const metricFamilies = (app: AppContext): Family[] => [
  ...requestFamilies(app),
  ...generationFamilies(app),
  ...stateFamilies(app),
  ...processFamilies(),
]

const counter = (name: string, help: string, samples: () => Sample[]): Family => ({
  name: `sluice_${name}`,
  help,
  type: 'counter',
  samples,
})

const gauge = (name: string, help: string, samples: () => Sample[]): Family => ({
  ...counter(name, help, samples),
  type: 'gauge',
})

const histogram = (name: string, help: string, samples: () => Sample[]): Family => ({
  ...counter(name, help, samples),
  type: 'histogram',
})

const one = (value: number): Sample[] => [{ labels: {}, value }]

const byLabel = (counts: ReadonlyMap<string, number>, name: string, labels: Sample['labels'] = {}): Sample[] =>
  [...counts].map(([label, value]) => ({ labels: { ...labels, [name]: label }, value }))

const requestFamilies = ({ counts, inFlight, ledger, concurrency }: AppContext): Family[] => [
  counter('requests_total', 'Requests by route and status of the response', () =>
    [...counts.requests].flatMap(([route, statuses]) =>
      [...statuses].map(([status, value]) => ({ labels: { route, status: String(status) }, value })),
    ),
  ),
  counter('refusals_total', 'Requests answered with an error, by its code', () => byLabel(counts.refusals, 'code')),
  gauge('requests_in_flight', 'Generations and uploads whose clients are connected', () => one(inFlight.size)),
  gauge('requests_waiting', 'Generations that wait because of a limit of concurrency', () => one(concurrency.waiting)),
  gauge('open_generations', 'Generations that have not ended, streamed or in one piece', () => {
    const { streamed, whole } = ledger.openCounts
    return [
      { labels: { streamed: 'true' }, value: streamed },
      { labels: { streamed: 'false' }, value: whole },
    ]
  }),
]

function generationFamilies({ counts: { generations } }: AppContext): Family[] {
  const each = (samples: (counts: ModelCounts, labels: Sample['labels']) => Sample[]) => (): Sample[] =>
    generations.all().flatMap((counts) => samples(counts, { model: counts.model, provider: counts.provider }))
  const value =
    (of: (counts: ModelCounts) => Sample['value']) =>
    (counts: ModelCounts, labels: Sample['labels']): Sample[] => [{ labels, value: of(counts) }]
  return [
    counter(
      'generations_total',
      'Generations that ended, by outcome',
      each(({ outcomes }, labels) => byLabel(outcomes, 'outcome', labels)),
    ),
    counter(
      'generation_failures_total',
      'Generations that failed or timed out, by the code of their error',
      each(({ failures }, labels) => byLabel(failures, 'code', labels)),
    ),
    counter(
      'attempts_total',
      'Calls of endpoints: served, or the code of their failure',
      each(({ attempts }, labels) => byLabel(attempts, 'outcome', labels)),
    ),
    counter(
      'tokens_total',
      'Usage by bucket, which are disjoint; also web searches and images',
      each(({ tokens }, labels) =>
        Object.entries(tokens).flatMap(([bucket, value]) =>
          value === 0 ? [] : [{ labels: { ...labels, bucket: snake(bucket) }, value }],
        ),
      ),
    ),
    counter(
      'cost_usd_total',
      'Bills of pay-as-you-go, list prices of subscriptions',
      each(value(({ nanoUsd }) => nanoUsd / NANO_PER_USD)),
    ),
    counter('lossy_generations_total', 'Generations whose translation lost something', each(value((one) => one.lossy))),
    counter(
      'estimated_usage_total',
      'Generations whose usage was counted here, because the provider did not report it',
      each(value((one) => one.estimated)),
    ),
    counter(
      'disputed_usage_total',
      'Generations of which the provider reported more usage than was asked for',
      each(value((one) => one.disputed)),
    ),
    histogram(
      'time_to_first_token_seconds',
      'From the request to the first event of a streamed response',
      each(value((one) => one.firstToken)),
    ),
    histogram(
      'generation_duration_seconds',
      'From the request to the end of the generation',
      each(value((one) => one.duration)),
    ),
    histogram('input_tokens', 'Input tokens of completed generations', each(value((one) => one.inputTokens))),
    histogram('output_tokens', 'Output tokens of completed generations', each(value((one) => one.outputTokens))),
  ]
}

/** `cacheWrite5mTokens` -> `cache_write_5m`. */
const snake = (bucket: string): string =>
  bucket
    .replace(/Tokens$/, '')
    .replace(/(?<=[a-z])(?=[A-Z\d])/g, '_')
    .toLowerCase()

const stateFamilies = ({ router, memory, ledger, store, space, files, tracing, bodies }: AppContext): Family[] => [
  histogram('commit_duration_seconds', 'Transactions of the database, and their flushes to the disk', () => [
    { labels: { step: 'write' }, value: store.timings.transactions },
    { labels: { step: 'flush' }, value: store.timings.flushes },
  ]),
  gauge('endpoints', 'Endpoints that were called, by the state of their breakers', () =>
    Object.entries(router.breakers).map(([breaker, value]) => ({ labels: { breaker }, value })),
  ),
  gauge('ledger_writable', '0 while charges cannot be recorded, and therefore no generation is accepted', () =>
    one(Number(ledger.isWritable)),
  ),
  gauge('disk_short', '1 while the free space of the disk is below the reserve', () => one(Number(space.isShort))),
  gauge('bucket_up', '0 while the bucket of files cannot be used', () =>
    files.health === undefined ? [] : one(Number(files.health.outage === undefined)),
  ),
  counter('bucket_requests_total', 'Requests to the bucket of files, by operation and outcome', () =>
    [...(files.health?.requests ?? [])].flatMap(([operation, outcomes]) => byLabel(outcomes, 'outcome', { operation })),
  ),
  gauge('request_memory_bytes', 'Memory that large requests in flight and slow clients occupy', () => one(memory.used)),
  gauge('request_memory_limit_bytes', 'The most that they may occupy', () => one(memory.limit)),
  gauge('deadlines', 'Deadlines that are set: timeouts of calls and streams in flight, mostly', () =>
    one(deadlines.size),
  ),
  histogram('event_loop_delay_seconds', 'How late the event loop runs a timer, measured every 50 ms', () => [
    { labels: {}, value: loopDelay.read() },
  ]),
  counter('log_lines_dropped_total', 'Lines of the log that its reader was too slow for', () => one(log.droppedLines)),
  counter('bodies_left_out_total', 'Requests whose bodies were to be kept, and are not or in part', () =>
    one(bodies.leftOut),
  ),
  counter('spans_total', 'Spans of traces: sent to the collector, or dropped because it was too slow or gone', () =>
    tracing === undefined
      ? []
      : [
          { labels: { outcome: 'sent' }, value: tracing.exporter.sent },
          { labels: { outcome: 'dropped' }, value: tracing.exporter.dropped },
        ],
  ),
  gauge('build_info', 'Always 1', () => [{ labels: { version: version, runtime: `bun ${Bun.version}` }, value: 1 }]),
]

const STARTED_AT = Date.now() / 1000 - process.uptime()

/** Under the names that Prometheus gives them everywhere. */
const processFamilies = (): Family[] => [
  {
    name: 'process_cpu_seconds_total',
    help: 'User and system CPU time',
    type: 'counter',
    samples: () => {
      const { user, system } = process.cpuUsage()
      return one((user + system) / 1e6)
    },
  },
  {
    name: 'process_resident_memory_bytes',
    help: 'Resident memory',
    type: 'gauge',
    samples: () => one(process.memoryUsage.rss()),
  },
  {
    name: 'process_start_time_seconds',
    help: 'Unix time of the start',
    type: 'gauge',
    samples: () => one(STARTED_AT),
  },
  { name: 'process_open_fds', help: 'Open file descriptors', type: 'gauge', samples: openDescriptors },
]

/** None where the system does not show them. */
function openDescriptors(): Sample[] {
  try {
    return one(descriptorCount())
  } catch {
    return []
  }
}
