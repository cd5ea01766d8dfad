import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { mkdtempSync, rmSync } from 'node:fs'
import { PostgresClient } from '../src/store/postgres/client.ts'
import { type PostgresServer, startPostgres } from '../tests/postgres/server.ts'
import { type Running, startSluice } from './contenders.ts'
import { canLimitCpu, type CpuLimit, limitCpu } from './cpu-share.ts'
import { loadOf, runLoad } from './measure.ts'
import { cpuSecondsSince, type CpuTimes, cpuTimes, descendantsOf } from './process.ts'
import { type CpuRow, cpuRows } from './rows.ts'
import { median } from './table.ts'

/** Commits are flushed to the disk, and statements counted. */
export const POSTGRES_SETTINGS = ['shared_preload_libraries=pg_stat_statements', 'wal_compression=on']
/** Connections of the load, for each process. */
const CONNECTIONS = 64
const ROUND_TRIPS = 500
const PROCESSES = [1, 2, 4]
const SHARED = 'control groups cannot be written here: the processes take all cores from one another'
/** The least multiple that two processes reach of the requests per second of one. */
const LEAST_FOR_TWO = 1.7
/** Each of four processes compiles what it runs. */
const WARM_FACTOR = 4

/**
 * Whole answers and streams. `share`: of a core for each process, so that all of them, PostgreSQL, the provider and the
 * load fit on two cores; a frame costs the provider and the load as much as the processes.
 */
const ROWS = [
  { title: '1 KB JSON', row: cpuRows[0]!, share: 0.15 },
  { title: 'streams', row: cpuRows.find(({ per }) => per === 'frames')!, share: 0.05 },
]

type Member = {
  processes: number
  running: Running
  database: string
  limits: CpuLimit[]
  remove(): Promise<void>
}
type Usage = { gateway: number; postgres: number; statements: number }
type Slice = Usage & { requests: number; frames: number; seconds: number }

/**
 * One, two and four processes over PostgreSQL, each with the same share of a core where the system can limit it, in
 * turns: throughput, CPU time and statements per request.
 */
export const printPostgres = async (
  upstreamPort: number,
  { rounds, sliceSeconds, warmSeconds }: { rounds: number; sliceSeconds: number; warmSeconds: number },
): Promise<void> => {
  const server = await startPostgres(POSTGRES_SETTINGS)
  const address = { url: server.url, connectMs: 5_000, statementMs: 60_000 }
  const admin = await PostgresClient.open(address)
  const members: Member[] = []
  try {
    await admin.script('CREATE EXTENSION pg_stat_statements; CREATE TABLE trips (id integer)')
    const isLimited = await canLimitCpu()
    if (!isLimited) console.error(SHARED)
    for (const processes of PROCESSES) members.push(await startMember(server, processes, upstreamPort, isLimited))
    for (const { title, row, share } of ROWS) {
      const slices = members.map(() => [] as Slice[])
      for (let round = -1; round < rounds; round += 1)
        for (const [index, member] of members.entries()) {
          // A process of so small a share would take long to compile what it runs.
          for (const limit of member.limits) limit.set(round < 0 ? 1 : share)
          const seconds = round < 0 ? warmSeconds * WARM_FACTOR : sliceSeconds
          const slice = await measureSlice(server, admin, member, row, seconds)
          if (round >= 0) slices[index]!.push(slice)
        }
      print(`${title}${isLimited ? `, each process ${share * 100} % of a core` : ''}`, row, slices)
      if (isLimited) checkTwo(title, row, slices)
    }
    const trip = await roundTripMs(admin, 'SELECT 1')
    const commit = await roundTripMs(admin, 'INSERT INTO trips VALUES (1)')
    console.log(`\nRound trip to PostgreSQL: ${trip.toFixed(2)} ms, with a flushed commit ${commit.toFixed(2)} ms`)
  } finally {
    for (const { remove } of members) await remove()
    await admin.close()
    server.stop()
  }
}

/** `isLimited`: each process gets a share of a core. */
const startMember = async (
  server: PostgresServer,
  processes: number,
  upstreamPort: number,
  isLimited: boolean,
): Promise<Member> => {
  const directory = mkdtempSync(join(tmpdir(), 'bench-postgres-'))
  const database = `processes_${processes}`
  const settings = `log: { requests: none }\nstore: ${await server.createDatabase(database)}\nworkers: ${processes}\n`
  const running = await startSluice(directory, upstreamPort, undefined, settings)
  const pids = isLimited ? [running.pid, ...descendantsOf(running.pid)] : []
  const limits = pids.map((pid) => limitCpu(pid, 1))
  const remove = async (): Promise<void> => {
    await running.stop()
    for (const limit of limits) limit.remove()
    rmSync(directory, { recursive: true, force: true })
  }
  return { processes, database, running, limits, remove }
}

const measureSlice = async (
  server: PostgresServer,
  admin: PostgresClient,
  { running, database, processes }: Member,
  row: CpuRow,
  seconds: number,
): Promise<Slice> => {
  const measure = async (): Promise<() => Promise<Usage>> => {
    const [before, gateway, postgres] = [
      await statementsOf(admin, database),
      cpuOf([running.pid, ...descendantsOf(running.pid)]),
      cpuOf([server.pid, ...descendantsOf(server.pid)]),
    ]
    return async () => ({
      gateway: since(gateway),
      postgres: since(postgres),
      statements: (await statementsOf(admin, database)) - before,
    })
  }
  const load = loadOf(running, { ...row, connections: CONNECTIONS * processes }, seconds)
  const { result, started } = await runLoad(load, measure)
  if (result === undefined) throw new Error('the load had no result')
  if (result.errors > 0) throw new Error(`the load had ${result.errors} errors`)
  return { ...(await (await started!)()), requests: result.requests, frames: result.frames, seconds }
}

const rateOf = (slices: readonly Slice[], { per }: CpuRow): number =>
  median(slices.map((slice) => slice[per] / slice.seconds))!

const checkTwo = (title: string, row: CpuRow, [one, two]: readonly Slice[][]): void => {
  const ratio = rateOf(two!, row) / rateOf(one!, row)
  if (ratio >= LEAST_FOR_TWO) return
  console.error(`${title}: two processes carry ${ratio.toFixed(2)}x of one, less than ${LEAST_FOR_TWO}x`)
  process.exitCode = 1
}

const cpuOf = (pids: readonly number[]): Map<number, CpuTimes> => new Map(pids.map((pid) => [pid, cpuTimes(pid)]))

const since = (before: ReadonlyMap<number, CpuTimes>): number =>
  [...before].reduce((sum, [pid, times]) => sum + cpuSecondsSince(pid, times), 0)

const statementsOf = async (admin: PostgresClient, database: string): Promise<number> =>
  (await admin.one<{ calls: number }>(
    `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
     WHERE d.datname = $1`,
    database,
  ))!.calls

const roundTripMs = async (admin: PostgresClient, sql: string): Promise<number> => {
  const times: number[] = []
  for (let trip = 0; trip < ROUND_TRIPS; trip += 1) {
    const startedAt = performance.now()
    await admin.run(sql)
    times.push(performance.now() - startedAt)
  }
  return median(times)!
}

const print = (title: string, { per }: CpuRow, slices: readonly Slice[][]): void => {
  const names = PROCESSES.map((processes) => (processes === 1 ? 'one process' : `${processes} processes`))
  const line = (title: string, digits: number, of: (slice: Slice) => number): void => {
    const cells = slices.map((one) => median(one.map(of))!)
    const texts = cells.map((cell, index) =>
      index === 0 ? cell.toFixed(digits) : `${cell.toFixed(digits)} (${(cell / cells[0]!).toFixed(2)}x)`,
    )
    console.log(`| ${title} | ${texts.join(' | ')} |`)
  }
  const unit = per === 'requests' ? 'request' : 'frame'
  console.log(`\n| Over PostgreSQL, ${title} | ${names.join(' | ')} |`)
  console.log(`|---|${names.map(() => '---:').join('|')}|`)
  line(`${unit === 'request' ? 'Requests' : 'Frames'} per second`, 0, (slice) => slice[per] / slice.seconds)
  line(`CPU per ${unit}, Sluice (µs)`, 1, (slice) => (slice.gateway / slice[per]) * 1e6)
  line(`CPU per ${unit}, PostgreSQL (µs)`, 1, (slice) => (slice.postgres / slice[per]) * 1e6)
  // Streams last longer than a slice: none of them ends in it.
  if (per === 'frames') line('Statements per second', 0, ({ statements, seconds }) => statements / seconds)
  else line('Statements per 1,000 requests', 0, ({ statements, requests }) => (statements / requests) * 1_000)
}
