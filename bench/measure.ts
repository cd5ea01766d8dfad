/** One function per kind of row. Contenders take turns in short slices, so that a busy machine hits all of them. */
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import type { Contender, Running } from './contenders.ts'
import type { Load, LoadResult } from './load.ts'
import { compilerSeconds, cpuSecondsSince, cpuTimes, residentMegabytes } from './process.ts'
import { silentStream } from './rows.ts'
import type { CpuRow, Row } from './rows.ts'
import { median } from './table.ts'
import type { Cell, TableRow } from './table.ts'

export type Entry = { contender: Contender; running: Running }

/** `warmSeconds`: the length of the slices before each row, in which JIT compilers work. */
export type Timing = { rounds: number; sliceSeconds: number; warmSeconds: number }

const STREAMS_OPEN_MS = 30_000
const SETTLE_MS = 500

type Child = Subprocess<'pipe', 'pipe', 'inherit'>

const startScript = (script: string, argument: string): Child =>
  Bun.spawn([process.execPath, join(import.meta.dir, script), argument], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })

const startLoad = (load: Load): Child => startScript('load.ts', JSON.stringify(load))

/** The lines of a process's output; `undefined` after its end. */
const linesOf = (child: Child): (() => Promise<string | undefined>) => {
  const decoder = new TextDecoder()
  const reader = child.stdout.getReader()
  let text = ''
  return async () => {
    for (;;) {
      const end = text.indexOf('\n')
      if (end >= 0) {
        const line = text.slice(0, end)
        text = text.slice(end + 1)
        return line
      }
      const { done, value } = await reader.read()
      if (done) return undefined
      text += decoder.decode(value, { stream: true })
    }
  }
}

/**
 * `during` runs from the first response of each connection on. No result where more than one request of a hundred
 * failed: refusals cost less than answers.
 */
export const runLoad = async <T>(
  load: Load,
  during?: () => T,
): Promise<{ result: LoadResult | undefined; started?: T }> => {
  const line = linesOf(startLoad(load))
  if ((await line()) === undefined) return { result: undefined }
  const started = during?.()
  const last = await line()
  const result = last === undefined ? undefined : withAnswers(JSON.parse(last) as LoadResult)
  return { result, ...(started === undefined ? {} : { started }) }
}

function withAnswers(result: LoadResult): LoadResult | undefined {
  const { errors, requests } = result
  if (errors * 100 <= requests) return result
  console.error(`${errors} errors in ${requests} requests`)
  return undefined
}

export const loadOf = (
  { port, headers, pid }: Pick<Running, 'port' | 'headers' | 'pid'>,
  row: Row,
  seconds: number,
): Load => ({
  port,
  headers,
  pid,
  path: row.path,
  body: row.body,
  connections: row.connections,
  ...(row.perSecond === undefined ? {} : { perSecond: row.perSecond }),
  seconds,
})

const reportErrors = ({ contender }: Entry, { title }: Row, result: LoadResult | undefined): void => {
  if (result === undefined) console.error(`${contender.name}: no result in "${title}"`)
  else if (result.errors > 0) console.error(`${contender.name}: ${result.errors} errors in "${title}"`)
}

const serves = ({ contender }: Entry, { translated }: CpuRow): boolean => contender.translates || !translated

const WARM_SLICES = 10
/** The share of the CPU time of a slice; below it, what is compiled still is a matter of chance. */
const COMPILER_SHARE = 0.03

/**
 * Runs a row until the contender's compiler rests: it works through about 25,000 small requests, at 100 us of CPU for
 * each, and what a server costs after that is to be measured.
 */
const warm = async (row: CpuRow, entry: Entry, seconds: number): Promise<void> => {
  const { pid } = entry.running
  const load = loadOf(entry.running, { ...row, body: row.warmBody ?? row.body }, seconds)
  for (let slice = 0; slice < WARM_SLICES; slice++) {
    const before = compilerSeconds(pid)
    const { result } = await runLoad(load)
    reportErrors(entry, row, result)
    if (result === undefined || compilerSeconds(pid) - before < COMPILER_SHARE * result.cpuSeconds) return
  }
}

export const measureCpu = async (row: CpuRow, entries: Entry[], timing: Timing): Promise<TableRow> => {
  const costs = entries.map(() => ({ cpu: 0, units: 0 }))
  const measured = entries.map((entry, i) => ({ entry, cost: costs[i]! })).filter(({ entry }) => serves(entry, row))
  for (const { entry } of measured) await warm(row, entry, timing.warmSeconds)
  for (let round = 0; round < timing.rounds; round += 1) {
    for (const { entry, cost } of measured) {
      const { result } = await runLoad(loadOf(entry.running, row, row.seconds ?? timing.sliceSeconds))
      reportErrors(entry, row, result)
      if (result === undefined) continue
      cost.cpu += result.cpuSeconds
      cost.units += result[row.per]
    }
  }
  return {
    title: row.title,
    cells: costs.map((cost) => (cost.units === 0 ? undefined : (cost.cpu / cost.units) * 1e6)),
    digits: 1,
  }
}

export const measureLatency = async (
  row: Row,
  upstream: { port: number; pid: number },
  entries: Entry[],
  { rounds, sliceSeconds }: Timing,
): Promise<TableRow> => {
  const medianOf = async (running: Parameters<typeof loadOf>[0]): Promise<number> =>
    (await runLoad(loadOf(running, row, sliceSeconds))).result?.medianMicros ?? NaN
  const direct: number[] = []
  const through = entries.map(() => [] as number[])
  for (let round = 0; round < rounds; round += 1) {
    direct.push(await medianOf({ ...upstream, headers: {} }))
    for (const [i, { running }] of entries.entries()) through[i]!.push(await medianOf(running))
  }
  return { title: row.title, cells: through.map((times) => median(times)! - median(direct)!), digits: 0 }
}

/** The longest wait in each slice, of slices the median. */
export const measurePauses = async (
  row: Row,
  entries: Entry[],
  { rounds, sliceSeconds }: Timing,
): Promise<TableRow> => {
  const longest = entries.map(() => [] as number[])
  for (let round = -1; round < rounds; round += 1) {
    for (const [i, entry] of entries.entries()) {
      if (row.translated && !entry.contender.translates) continue
      const { result, started: stopPoll } = await runLoad(loadOf(entry.running, row, sliceSeconds), () =>
        startPoll(entry.running.port),
      )
      reportErrors(entry, row, result)
      const milliseconds = await stopPoll?.()
      if (round >= 0 && result !== undefined && milliseconds !== undefined) longest[i]!.push(milliseconds)
    }
  }
  return { title: row.title, cells: longest.map(median), digits: 0 }
}

/** Polls the server; the function that is returned ends that, and gives the longest time between two answers. */
const startPoll = (port: number): (() => Promise<Cell>) => {
  const child = startScript('poll.ts', String(port))
  const line = linesOf(child)
  return async () => {
    await line()
    child.stdin.end()
    const last = await line()
    return last === undefined ? undefined : Number(last)
  }
}

/** Opens streams on which nothing comes; the function that is returned closes them. */
const openStreams = async (
  { port, headers }: Pick<Running, 'port' | 'headers'>,
  count: number,
): Promise<(() => Promise<void>) | undefined> => {
  const child = startLoad({ port, headers, ...silentStream, connections: count, seconds: 0, hold: true })
  const timeout = setTimeout(() => child.kill(), STREAMS_OPEN_MS)
  const opened = await linesOf(child)()
  clearTimeout(timeout)
  if (opened === undefined) return undefined
  await Bun.sleep(SETTLE_MS)
  return async () => {
    child.stdin.end()
    await child.exited
  }
}

export const memoryWithStreams = async (running: Running, count: number): Promise<Cell> => {
  const close = await openStreams(running, count)
  if (close === undefined) return undefined
  const memory = residentNow(running)
  await close()
  return memory
}

export const residentNow = ({ pid, others }: Running): number =>
  [pid, ...others].reduce((sum, one) => sum + residentMegabytes(one), 0)

/**
 * Milliseconds of CPU time per second, of all contenders in the same time: the median of `windows`, because runtimes
 * collect garbage in some of them. `streams`: silent ones on each. `settleMs`: the time before, after a load.
 */
export const measureRest = async (
  title: string,
  entries: Entry[],
  { windows, seconds, settleMs, streams }: { windows: number; seconds: number; settleMs: number; streams: number },
): Promise<TableRow> => {
  const closing = await Promise.all(
    entries.map(({ running }) => (streams > 0 ? openStreams(running, streams) : undefined)),
  )
  await Bun.sleep(settleMs)
  const measured = entries.map(() => [] as number[])
  for (let window = 0; window < windows; window += 1) {
    const before = entries.map(({ running }) => cpuTimes(running.pid))
    await Bun.sleep(seconds * 1000)
    for (const [i, { running }] of entries.entries())
      measured[i]!.push((cpuSecondsSince(running.pid, before[i]!) / seconds) * 1000)
  }
  for (const close of closing) await close?.()
  return { title, cells: measured.map(median), digits: 2 }
}
