/**
 * Compares Sluice with nginx and two minimal Bun proxies on loopback: `npm run bench -- [--quick] [--only=NAME,...]
 * [--before=DIR]`, DIR being another checkout of Sluice. CPU time is taken from the kernel's accounting of the process,
 * so the load generator and a busy machine matter little. Contenders take turns in short slices; each number is shown
 * with its ratio to nginx in the same run.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentBody } from './agent-body.ts'
import { contenders, startListening } from './contenders.ts'
import type { Contender, Running } from './contenders.ts'
import { measureStored } from './stored.ts'
import type { Load, LoadResult } from './load.ts'

const quick = process.argv.includes('--quick')
const option = (name: string): string | undefined =>
  process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(name.length + 3)
const only = option('only')
const ROUNDS = quick ? 2 : 5
const SLICE_SECONDS = quick ? 1.5 : 3
/** Warm-up, so that JIT-compiled contenders are measured in their steady state. */
const WARM_SECONDS = quick ? 4 : 8
const OPEN_STREAMS = quick ? 500 : 2000
const TICKS_PER_SECOND = 100

type Task = {
  title: string
  path: string
  agent?: boolean
  stream: boolean
  translated: boolean
  connections: number
  per: 'requests' | 'frames'
}

const TASKS: Task[] = [
  {
    title: 'CPU per request, 1 KB JSON, passthrough (µs)',
    path: '/v1/chat/completions',
    stream: false,
    translated: false,
    connections: 16,
    per: 'requests',
  },
  {
    title: 'CPU per request, 1 KB JSON, translated (µs)',
    path: '/v1/messages',
    stream: false,
    translated: true,
    connections: 16,
    per: 'requests',
  },
  {
    title: "CPU per request, an agent's 60 KB, passthrough (µs)",
    path: '/v1/chat/completions',
    agent: true,
    stream: false,
    translated: false,
    connections: 16,
    per: 'requests',
  },
  {
    title: "CPU per request, an agent's 60 KB, translated (µs)",
    path: '/v1/messages',
    agent: true,
    stream: false,
    translated: true,
    connections: 16,
    per: 'requests',
  },
  {
    title: 'CPU per SSE frame, passthrough (µs)',
    path: '/v1/chat/completions',
    stream: true,
    translated: false,
    connections: 32,
    per: 'frames',
  },
  {
    title: 'CPU per SSE frame, translated (µs)',
    path: '/v1/messages',
    stream: true,
    translated: true,
    connections: 32,
    per: 'frames',
  },
]

const bodyOf = (stream: boolean, text = 'Where does the water go?'): string =>
  JSON.stringify({ model: 'bench/m', max_tokens: 1024, stream, messages: [{ role: 'user', content: text }] })

const cpuSeconds = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

const residentMegabytes = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? NaN) / 1024

const startLoad = (load: Load) =>
  Bun.spawn([process.execPath, join(import.meta.dir, 'load.ts'), JSON.stringify(load)], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })

const runLoad = async (load: Load): Promise<LoadResult> => {
  const child = startLoad(load)
  const text = await new Response(child.stdout).text()
  return JSON.parse(text.trim().split('\n').at(-1)!) as LoadResult
}

const loadOf = (running: { port: number; headers: Record<string, string> }, task: Task): Load => ({
  port: running.port,
  path: task.path,
  headers: running.headers,
  body: task.agent === true ? agentBody(task.path, 'bench/m') : bodyOf(task.stream),
  connections: task.connections,
  seconds: SLICE_SECONDS,
})

type Cell = number | undefined
type Row = { title: string; cells: Cell[]; digits: number }

const median = (values: number[]): Cell =>
  values.length === 0 ? undefined : [...values].sort((a, b) => a - b)[values.length >> 1]

type Entry = { contender: Contender; running: Running }

const measureTask = async (task: Task, entries: Entry[]): Promise<Row> => {
  const costs = entries.map(() => ({ cpu: 0, units: 0 }))
  for (let round = -1; round < ROUNDS; round += 1) {
    for (const [i, { contender, running }] of entries.entries()) {
      if (task.translated && !contender.translates) continue
      const before = cpuSeconds(running.pid)
      const result = await runLoad({ ...loadOf(running, task), ...(round === -1 ? { seconds: WARM_SECONDS } : {}) })
      if (result.errors > 0) console.error(`${contender.name}: ${result.errors} errors in "${task.title}"`)
      // Round -1 is the warm-up.
      if (round === -1) continue
      costs[i]!.cpu += cpuSeconds(running.pid) - before
      costs[i]!.units += result[task.per]
    }
  }
  return {
    title: task.title,
    cells: costs.map((cost) => (cost.units === 0 ? undefined : (cost.cpu / cost.units) * 1e6)),
    digits: 1,
  }
}

const measureLatency = async (upstreamPort: number, entries: Entry[]): Promise<Row> => {
  const task = { ...TASKS[0]!, connections: 1 }
  const direct: number[] = []
  const through = entries.map(() => [] as number[])
  for (let round = 0; round < ROUNDS; round += 1) {
    direct.push((await runLoad(loadOf({ port: upstreamPort, headers: {} }, task))).medianMicros)
    for (const [i, { running }] of entries.entries())
      through[i]!.push((await runLoad(loadOf(running, task))).medianMicros)
  }
  return {
    title: 'Added latency, one connection, median (µs)',
    cells: through.map((times) => median(times)! - median(direct)!),
    digits: 0,
  }
}

const measureOpenStreams = async ({ running }: Entry): Promise<Cell> => {
  const load: Load = {
    port: running.port,
    path: '/v1/chat/completions',
    headers: running.headers,
    body: bodyOf(true, 'stay silent'),
    connections: OPEN_STREAMS,
    seconds: 0,
    hold: true,
  }
  const child = startLoad(load)
  const timeout = setTimeout(() => child.kill(), 30_000)
  const reader = child.stdout.getReader()
  const first = await reader.read()
  clearTimeout(timeout)
  await Bun.sleep(500)
  const memory = first.done ? undefined : residentMegabytes(running.pid)
  child.stdin.end()
  await child.exited
  return memory
}

const ratio = (value: Cell, base: Cell): string =>
  value === undefined || base === undefined || base <= 0 ? '' : ` (${(value / base).toFixed(2)}x)`

const printTable = (entries: Entry[], rows: Row[]): void => {
  const base = entries.findIndex((entry) => entry.contender.name === 'nginx')
  const names = entries.map((entry) => entry.contender.name)
  console.log(`\n| | ${names.join(' | ')} |\n|---|${names.map(() => '---:').join('|')}|`)
  for (const { title, cells, digits } of rows) {
    // nginx cannot translate, so translated rows are compared with its passthrough row.
    const passthrough = rows.find((row) => row.title === title.replace('translated', 'passthrough')) ?? { cells }
    const texts = cells.map((cell, i) =>
      cell === undefined ? '-' : cell.toFixed(digits) + (i === base ? '' : ratio(cell, passthrough.cells[base])),
    )
    console.log(`| ${title} | ${texts.join(' | ')} |`)
  }
}

const main = async (): Promise<void> => {
  const { present, absent } = contenders(option('before'))
  for (const line of absent) console.log(line)
  const upstream = await startListening([process.execPath, join(import.meta.dir, 'upstream.ts'), '200', '2'])
  const entries: Entry[] = []
  try {
    for (const contender of present) {
      if (only !== undefined && !only.split(',').includes(contender.name)) continue
      try {
        entries.push({ contender, running: await contender.start(upstream.port) })
      } catch (error) {
        console.log(`${contender.name} skipped: ${(error as Error).message}`)
      }
    }
    await Bun.sleep(500)
    const rows: Row[] = [
      { title: 'Start to listening (ms)', cells: entries.map((entry) => entry.running.startMs), digits: 0 },
      {
        title: 'Memory after start (MB)',
        cells: entries.map((entry) => residentMegabytes(entry.running.pid)),
        digits: 0,
      },
    ]
    for (const task of TASKS) rows.push(await measureTask(task, entries))
    rows.push(await measureLatency(upstream.port, entries))
    const open: Cell[] = []
    for (const entry of entries) open.push(await measureOpenStreams(entry))
    rows.push({ title: `Memory with ${OPEN_STREAMS} open streams, after the load (MB)`, cells: open, digits: 0 })
    printTable(entries, rows)
  } finally {
    for (const { running } of entries) await running.stop()
    upstream.child.kill()
    await upstream.child.exited
  }
}

const printStored = async (): Promise<void> => {
  const { generations, bytesEach, recordMs, balanceMs } = await measureStored(quick ? 100_000 : 1_000_000)
  const row = ({ median, p99 }: { median: number; p99: number }): string => `${median.toFixed(2)} | ${p99.toFixed(2)}`
  console.log(`\n| With ${generations} generations stored | median | p99 |\n|---|---:|---:|`)
  console.log(`| One record over HTTP (ms) | ${row(recordMs)} |`)
  console.log(`| Balance over HTTP (ms) | ${row(balanceMs)} |`)
  console.log(`\nBytes on disk per generation, posting included: ${bytesEach.toFixed(0)}`)
}

await main()
if (only === undefined) await printStored()
