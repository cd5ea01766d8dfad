/**
 * CPU per request with the request log, metrics, traces and the capture of all bodies off and on. The row "nothing"
 * shows how exact the others are.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startListening, startSluice } from './contenders.ts'
import { loadOf, runLoad } from './measure.ts'
import { cpuRows } from './rows.ts'
import { SWITCHES } from './switches.ts'

const HERE = import.meta.dir
const row = cpuRows[0]!
const SETTLE_MS = 50
const LOG = 'log: { format: json, requests: all }\n'
const CAPTURE = 'capture: { most: all, default: all }\n'

/** The lines of the log are dropped: a terminal would cost more than they do. */
const commandOf = (name: string, collector: string): string[] => [
  'env',
  `SWITCH=${name}`,
  `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${collector}/v1/traces`,
  'sh',
  '-c',
  'exec "$0" "$@" 2>/dev/null',
  process.execPath,
  '--preload',
  join(HERE, 'switches.ts'),
  join(HERE, '../src/main.ts'),
  'serve',
  '--no-console',
]

/** `only`: names of `SWITCHES`. */
export async function printObservers(
  only: string[] | undefined,
  rounds: number,
  sliceSeconds: number,
  warmSeconds: number,
): Promise<void> {
  const collector = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: async (request) => taken(request) })
  const upstream = await startListening([process.execPath, join(HERE, 'upstream.ts'), '200', '2'])
  console.log(`| ${row.title} | off | on | difference |\n|---|---:|---:|---:|`)
  try {
    for (const name of SWITCHES.filter((name) => only?.includes(name) ?? true)) {
      const config = name === 'capture' ? LOG + CAPTURE : LOG
      const { off, on } = await measure(commandOf(name, collector.url.origin), upstream.port, config, {
        rounds,
        sliceSeconds,
        warmSeconds,
      })
      const difference = ((on / off - 1) * 100).toFixed(1)
      console.log(`| ${name} | ${off.toFixed(1)} | ${on.toFixed(1)} | ${difference} % |`)
    }
  } finally {
    upstream.child.kill()
    await upstream.child.exited
    await collector.stop(true)
  }
}

async function taken(request: Request): Promise<Response> {
  await request.arrayBuffer()
  return Response.json({})
}

/** Microseconds per request. */
async function measure(
  command: string[],
  upstreamPort: number,
  config: string,
  { rounds, sliceSeconds, warmSeconds }: { rounds: number; sliceSeconds: number; warmSeconds: number },
): Promise<{ off: number; on: number }> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-observers-'))
  const running = await startSluice(directory, upstreamPort, command, config)
  try {
    await runLoad(loadOf(running, row, warmSeconds))
    const sums = { on: { cpu: 0, requests: 0 }, off: { cpu: 0, requests: 0 } }
    for (let slice = 0; slice < rounds * 2; slice++) {
      const { result } = await runLoad(loadOf(running, row, sliceSeconds))
      const sum = slice % 2 === 0 ? sums.on : sums.off
      sum.cpu += result?.cpuSeconds ?? Number.NaN
      sum.requests += result?.requests ?? 0
      process.kill(running.pid, 'SIGWINCH')
      await Bun.sleep(SETTLE_MS)
    }
    return { on: (sums.on.cpu / sums.on.requests) * 1e6, off: (sums.off.cpu / sums.off.requests) * 1e6 }
  } finally {
    await running.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}
