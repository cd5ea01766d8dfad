import { agentBody } from './agent-body.ts'
import type { Load } from './load.ts'

const MODEL = 'bench/m'

/** A row and its load. In the translated lane, clients use messages and the provider chat completions. */
export type Row = {
  title: string
  path: string
  translated: boolean
  body: Load['body']
  connections: number
  /** The rate of requests, the same for each contender; without it, as many as it takes. */
  perSecond?: number
  /** Left out of a quick run. */
  slow?: boolean
}

/**
 * CPU time per request or frame. `seconds`: the length of slices, if it matters. `warmBody`: sent before the row where
 * its own body leads to too few frames for the JIT compiler.
 */
export type CpuRow = Row & { per: 'requests' | 'frames'; seconds?: number; warmBody?: string }

const textBody = (stream: boolean, text: string): string =>
  JSON.stringify({ model: MODEL, max_tokens: 1024, stream, messages: [{ role: 'user', content: text }] })

const pacedBody = (ms: number): string => textBody(true, `Where does the water go? Write one frame in ${ms} ms.`)

/** Both lanes of a row. */
const lanes = <R extends Row>(
  row: Omit<R, 'path' | 'translated' | 'body'>,
  body: (path: string) => Load['body'],
): R[] =>
  [false, true].map((translated) => {
    const path = translated ? '/v1/messages' : '/v1/chat/completions'
    const title = row.title.replace('LANE', translated ? 'translated' : 'passthrough')
    return { ...row, title, path, translated, body: body(path) } as unknown as R
  })

const AGENT_SIZES = [
  { name: '60 KB', bytes: 60_000, connections: 16 },
  { name: '300 KB', bytes: 300_000, connections: 16, slow: true },
  { name: '1 MB', bytes: 1_000_000, connections: 4 },
]

const agentRows = ({ name, bytes, ...size }: (typeof AGENT_SIZES)[number]): CpuRow[] =>
  [false, true].flatMap((grows) =>
    lanes<CpuRow>(
      {
        title: `CPU per request, an agent's ${name}, ${grows ? 'next turn' : 'cold'}, LANE (µs)`,
        per: 'requests',
        ...size,
      },
      () => ({ model: MODEL, bytes, grows }),
    ),
  )

/** A paced stream lasts two seconds, so each slice has as many begins and ends as another. */
const PACED_SECONDS = 2

export const cpuRows: CpuRow[] = [
  ...lanes<CpuRow>({ title: 'CPU per request, 1 KB JSON, LANE (µs)', connections: 16, per: 'requests' }, () =>
    textBody(false, 'Where does the water go?'),
  ),
  ...lanes<CpuRow>(
    {
      title: 'CPU per request, 1 KB JSON, 200 a second, LANE (µs)',
      connections: 16,
      perSecond: 200,
      per: 'requests',
    },
    () => textBody(false, 'Where does the water go?'),
  ),
  ...lanes<CpuRow>(
    { title: "CPU per request, an agent's 60 KB, LANE (µs)", connections: 16, per: 'requests' },
    (path) => agentBody(path, MODEL),
  ),
  ...AGENT_SIZES.flatMap(agentRows),
  ...lanes<CpuRow>({ title: 'CPU per SSE frame, LANE (µs)', connections: 32, per: 'frames' }, () =>
    textBody(true, 'Where does the water go?'),
  ),
  ...lanes<CpuRow>(
    {
      title: 'CPU per SSE frame, 16 streams with 50 frames/s, LANE (µs)',
      connections: 16,
      per: 'frames',
      seconds: PACED_SECONDS,
      warmBody: pacedBody(1),
    },
    () => pacedBody(20),
  ),
]

export const latencyRow: Row = {
  ...cpuRows[0]!,
  title: 'Added latency, one connection, median (µs)',
  connections: 1,
}

/** Large requests, during which other clients wait. */
export const pauseRows: Row[] = [10, 30].flatMap((megabytes) =>
  lanes<Row>(
    {
      title: `Longest wait of other clients while ${megabytes} MB come, LANE (ms)`,
      connections: 1,
      slow: megabytes === 10,
    },
    () => ({ model: MODEL, bytes: megabytes * 1_000_000, grows: false }),
  ),
)

export const silentStream = { path: '/v1/chat/completions', body: textBody(true, 'stay silent') }
