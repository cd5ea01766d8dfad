import { version } from '../../../package.json'
import type { AppContext } from '../../context.ts'
import { isLoopbackHost } from '../../http/own-origin.ts'
import { answer, time } from './answer.ts'

/** The state of the server. `problems`: sentences, the most serious first; empty without any. */
export type SystemAnswer = {
  version: string
  runtime: string
  started_at: string
  now: string
  url: string | null
  file: string | null
  data: string
  memory_bytes: number
  /** Held by large requests in flight. */
  request_memory_bytes: number
  disk_free_bytes: number | null
  open_requests: number
  problems: string[]
}

/** `GET /v1/management/system`. */
export async function getSystem(app: AppContext): Promise<Response> {
  const { config, memory, inFlight, clock, space } = app
  const now = clock.now()
  const problems = await problemsOf(app)
  const system: SystemAnswer = {
    version,
    runtime: `Bun ${Bun.version}`,
    started_at: time(now - Math.round(process.uptime() * 1000)),
    now: time(now),
    url: config.listen.publicUrl ?? null,
    file: config.file ?? null,
    data: config.data,
    memory_bytes: process.memoryUsage.rss(),
    request_memory_bytes: memory.used,
    disk_free_bytes: await space.free(),
    open_requests: inFlight.size,
    problems,
  }
  return answer(system)
}

async function problemsOf({ ledger, space, store, files, catalogue, config }: AppContext): Promise<string[]> {
  const { refused, reason } = await space.shortage()
  const outage = await store.outage()
  const away = files.health?.outage
  const others = catalogue.providers().filter(({ inProcess }) => inProcess === undefined)
  const { host, publicUrl } = config.listen
  return [
    ...(outage === undefined ? [] : [`The database cannot be used: ${outage}.`]),
    ...(ledger.isWritable
      ? []
      : ['Charges cannot be recorded: generations are refused until the store can be written.']),
    ...(refused === 'nothing' ? [] : [`The disk is nearly full: ${reason}.`]),
    ...(away === undefined ? [] : [`The bucket of files cannot be used (${away}): what needs files is refused.`]),
    ...(others.length > 0 ? [] : ['No provider is on but the sandbox: set the key of one.']),
    ...(isLoopbackHost(host.includes(':') ? `[${host}]` : host) || publicUrl?.startsWith('https:') === true
      ? []
      : ['Sluice listens beyond this machine without https: keys and sessions can be read on the way.']),
  ]
}
