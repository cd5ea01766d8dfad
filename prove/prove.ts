/**
 * Attacks a Sluice on this machine and prints what held as a table: `npm run prove -- attack [--quick] [--only=REGEX]`,
 * `npm run prove -- routing [--quick]`, `npm run prove -- scale [--quick] [--only=REGEX]`, or
 * `npm run prove -- soak [--minutes=120] [--pause=MS]`. Ends with status 1 if something did not hold.
 */
import { proveFaults } from './faults.ts'
import { proveInput } from './input.ts'
import { proveKills } from './kill.ts'
import { proveLeaving } from './leaving.ts'
import { proveLeases } from './lease-simulation.ts'
import { proveOverspend } from './overspend.ts'
import { proveRouting } from './routing.ts'
import {
  proveBrokenConnections,
  proveKilledDatabase,
  proveKilledProcesses,
  provePausedProcess,
  proveRaces,
  proveRollingRestart,
} from './scale.ts'
import { proveSoak } from './soak.ts'
import { proveStall } from './stall.ts'
import { type Finding, tableOf } from './table.ts'

type Proof = (progress: (text: string) => void) => Promise<Finding[]>

const option = (name: string): string | undefined =>
  process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(name.length + 3)
const isQuick = process.argv.includes('--quick')
const size = (whole: number, quick: number): number => (isQuick ? quick : whole)

const MANY_LEASES = { processes: 1_000, accounts: 100_000, requests: 300_000, seconds: 120, deaths: 20 }
const FEW_LEASES = { processes: 50, accounts: 2_000, requests: 10_000, seconds: 60, deaths: 3 }

const SUITES: Record<string, Record<string, Proof>> = {
  attack: {
    kill: (progress) => proveKills(size(500, 20), progress),
    overspend: (progress) => proveOverspend(size(3, 1), progress),
    leaving: (progress) => proveLeaving(size(1_000, 80), progress),
    input: (progress) => proveInput(size(20_000, 1_000), progress),
    faults: proveFaults,
    stall: (progress) => proveStall(size(3, 1), progress),
  },
  routing: { routing: (progress) => proveRouting(size(1_000, 100), progress) },
  scale: {
    leases: (progress) => proveLeases(isQuick ? FEW_LEASES : MANY_LEASES, progress),
    races: (progress) => proveRaces(size(3, 1), progress),
    kills: (progress) => proveKilledProcesses(size(200, 10), progress),
    pauses: (progress) => provePausedProcess(size(5, 1), progress),
    database: (progress) => proveKilledDatabase(size(20, 3), progress),
    connections: (progress) => proveBrokenConnections(size(300, 12), progress),
    restarts: (progress) => proveRollingRestart(size(5, 1), progress),
  },
  soak: {
    soak: (progress) => proveSoak(Number(option('minutes') ?? size(120, 2)), Number(option('pause') ?? 0), progress),
  },
}

const suite = SUITES[process.argv[2] ?? '']
if (suite === undefined) {
  console.error(`usage: npm run prove -- ${Object.keys(SUITES).join('|')} [--quick] [--only=REGEX] [--minutes=N]`)
  process.exit(2)
}
const only = new RegExp(option('only') ?? '')
const findings: Finding[] = []
for (const [name, proof] of Object.entries(suite))
  if (only.test(name)) findings.push(...(await proof((text) => console.error(`${name}: ${text}`))))
console.log(tableOf(findings))
process.exit(findings.some(({ fault }) => fault !== undefined) ? 1 : 0)
