/**
 * Compares Sluice with nginx and two minimal Bun proxies on loopback. CPU time is taken from the kernel's accounting of
 * the process, so the load generator and a busy machine matter little. Each number is shown with its ratio to nginx in
 * the same run.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { contenders, startListening } from './contenders.ts'
import type { Contender } from './contenders.ts'
import { measureCpu, measureLatency, measurePauses, measureRest, memoryWithStreams, residentNow } from './measure.ts'
import type { Entry, Timing } from './measure.ts'
import { printObservers } from './observers.ts'
import { printPostgres } from './postgres.ts'
import { cpuRows, latencyRow, pauseRows } from './rows.ts'
import type { Row } from './rows.ts'
import { measureStored } from './stored.ts'
import { printTable } from './table.ts'
import type { Cell, TableRow } from './table.ts'

const USAGE = `npm run bench -- [--quick] [--only=NAME,...] [--rows=REGEX] [--before=DIR] [--observers] [--postgres]

  --quick       shorter slices, and no rows that take long
  --only        contenders or observers, by name: nginx, ...
  --rows        rows whose title matches
  --before      another checkout of Sluice, as one more contender
  --observers   CPU of the log, metrics and traces
  --postgres    one, two and four processes over PostgreSQL
`

const options = readOptions()
if (options.help === true) {
  console.log(USAGE)
  process.exit()
}
const quick = options.quick === true
const only = options.only?.split(',')
const rowPattern = options.rows

const TIMING: Timing = quick
  ? { rounds: 3, sliceSeconds: 0.7, warmSeconds: 1.5 }
  : { rounds: 4, sliceSeconds: 2, warmSeconds: 2.5 }
/** For what has no rows: the JIT compiler needs about 25,000 small requests. */
const WARM_SECONDS = 8
const PAUSE_SECONDS = quick ? 1.5 : 3
const REST = { windows: 5, seconds: quick ? 5 : 10, settleMs: 30_000 }
const SILENT_STREAMS = 500
const OPEN_STREAMS = quick ? 500 : 2_000
const STARTED_STREAMS = 2_000
const STARTED_SETTLE_MS = 2_000
/** They differ by little, so that many slices are needed. */
const OBSERVER_ROUNDS = quick ? 10 : 20
const STORED = quick ? 100_000 : 1_000_000

function readOptions() {
  const flag = { type: 'boolean' } as const
  const text = { type: 'string' } as const
  const known = { quick: flag, observers: flag, postgres: flag, help: flag, only: text, rows: text, before: text }
  try {
    return parseArgs({ args: process.argv.slice(2), options: known }).values
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

const isWanted = (title: string): boolean => rowPattern === undefined || new RegExp(rowPattern, 'i').test(title)
const wanted = <R extends Row>(rows: R[]): R[] => rows.filter(({ title, slow }) => isWanted(title) && !(quick && slow))

const withUpstream = async (run: (upstream: Upstream) => Promise<void>): Promise<void> => {
  const upstream = await startListening([process.execPath, join(import.meta.dir, 'upstream.ts'), '200', '2'])
  try {
    await run({ port: upstream.port, pid: upstream.child.pid })
  } finally {
    upstream.child.kill()
    await upstream.child.exited
  }
}

const main = async (upstream: Upstream): Promise<void> => {
  const { present, absent } = contenders(options.before)
  for (const line of absent) console.log(line)
  const chosen = present.filter(({ name }) => only === undefined || only.includes(name))
  const { names, rows } = await measureRunning(chosen, upstream)
  rows.push(
    ...(await measureStarted(
      chosen.filter(({ name }) => names.includes(name)),
      upstream.port,
    )),
  )
  printTable(names, rows, 'nginx')
}

type Upstream = { port: number; pid: number }

/** The rows for which all contenders run side by side. */
const measureRunning = async (
  chosen: Contender[],
  upstream: Upstream,
): Promise<{ names: string[]; rows: TableRow[] }> => {
  const entries: Entry[] = []
  try {
    for (const contender of chosen) {
      try {
        entries.push({ contender, running: await contender.start(upstream.port) })
      } catch (error) {
        console.log(`${contender.name} skipped: ${(error as Error).message}`)
      }
    }
    await Bun.sleep(500)
    const rows = await measureAll(entries, upstream)
    return { names: entries.map(({ contender }) => contender.name), rows }
  } finally {
    for (const { running } of entries) await running.stop()
  }
}

const measureAll = async (entries: Entry[], upstream: Upstream): Promise<TableRow[]> => {
  const all = (title: string, digits: number, cells: Cell[]): TableRow => ({ title, digits, cells })
  const rows: TableRow[] = [
    all(
      'Start to listening (ms)',
      0,
      entries.map(({ running }) => running.startMs),
    ),
    all(
      'Memory after start (MB)',
      0,
      entries.map(({ running }) => residentNow(running)),
    ),
  ].filter(({ title }) => isWanted(title))
  for (const row of wanted(cpuRows)) rows.push(await measureCpu(row, entries, TIMING))
  for (const row of wanted([latencyRow])) rows.push(await measureLatency(row, upstream, entries, TIMING))
  for (const row of wanted(pauseRows))
    rows.push(await measurePauses(row, entries, { ...TIMING, rounds: quick ? 1 : 3, sliceSeconds: PAUSE_SECONDS }))
  for (const streams of [0, SILENT_STREAMS]) {
    const title = `CPU ${streams === 0 ? 'at rest' : `with ${streams} silent streams`} (ms/s)`
    if (isWanted(title)) rows.push(await measureRest(title, entries, { ...REST, streams }))
  }
  const openTitle = `Memory with ${OPEN_STREAMS} open streams, after the load (MB)`
  if (!isWanted(openTitle)) return rows
  const open: Cell[] = []
  for (const { running } of entries) open.push(await memoryWithStreams(running, OPEN_STREAMS))
  return [...rows, all(openTitle, 0, open)]
}

/** Memory of fresh servers, started as a user does. */
const measureStarted = async (chosen: Contender[], upstreamPort: number): Promise<TableRow[]> => {
  const idle: TableRow = { title: 'Memory as started by a user, idle (MB)', cells: [], digits: 0 }
  const open: TableRow = {
    title: `Memory as started by a user, ${STARTED_STREAMS} open streams (MB)`,
    cells: [],
    digits: 0,
  }
  const rows = [idle, open].filter(({ title }) => isWanted(title))
  if (rows.length === 0) return []
  for (const { startAsUser, start } of chosen) {
    const running = await (startAsUser ?? start)(upstreamPort)
    try {
      await Bun.sleep(STARTED_SETTLE_MS)
      idle.cells.push(residentNow(running))
      open.cells.push(await memoryWithStreams(running, STARTED_STREAMS))
    } finally {
      await running.stop()
    }
  }
  return rows
}

const printStored = async (): Promise<void> => {
  const { generations, bytesEach, recordMs, balanceMs } = await measureStored(STORED)
  const row = ({ median, p99 }: { median: number; p99: number }): string => `${median.toFixed(2)} | ${p99.toFixed(2)}`
  console.log(`\n| With ${generations} generations stored | median | p99 |\n|---|---:|---:|`)
  console.log(`| One record over HTTP (ms) | ${row(recordMs)} |`)
  console.log(`| Balance over HTTP (ms) | ${row(balanceMs)} |`)
  console.log(`\nBytes on disk per generation, posting included: ${bytesEach.toFixed(0)}`)
}

if (options.observers === true) {
  await printObservers(only, OBSERVER_ROUNDS, TIMING.sliceSeconds, WARM_SECONDS)
  process.exit()
}
if (options.postgres === true) {
  await withUpstream(({ port }) => printPostgres(port, { ...TIMING, warmSeconds: WARM_SECONDS }))
  process.exit()
}
await withUpstream(main)
if (only === undefined && rowPattern === undefined) {
  await printStored()
  await withUpstream(({ port }) => printPostgres(port, { ...TIMING, warmSeconds: WARM_SECONDS }))
}
