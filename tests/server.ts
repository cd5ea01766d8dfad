import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { start } from '../src/app.ts'
import { loadConfig, type Config } from '../src/config/load.ts'
import { expectBookRight } from './audit.ts'
import type { MemoryGroup } from './memory-group.ts'
import { prepareStore } from './new-store.ts'
import { LATE_COMPILERS, program } from './program.ts'
import type { SmallDisk } from './small-disk.ts'
import { declareDead, withStoreText } from './stores.ts'

/** A running Sluice on a free port of the loopback interface, with a data folder of its own. */
export type Gateway = {
  url: string
  /** The pay-as-you-go key. */
  key: string
  /** The keys that it created at this start, by kind. */
  createdKeys: Record<string, string>
  data: string
  /** Ends it at once, and fails if its book does not balance. */
  stop(): Promise<void>
}

/** A gateway in a process of its own, which can be killed and whose output can be read. */
export type GatewayProcess = Gateway & {
  pid: number
  /** Everything printed so far. */
  output(): { stdout: string; stderr: string }
  kill(signal: NodeJS.Signals): void
  exited: Promise<number>
}

/**
 * `config`: the text of sluice.yaml. `env`: environment variables besides the key and a port without Ollama. `data`: a
 * folder that outlives the gateway; without it a new one is made, and removed at the end.
 */
export type GatewayOptions = { config?: string; env?: Record<string, string>; data?: string; key?: string }

const DEFAULT_KEY = `sk-ai-v1-test${'0123456789abcdef'.repeat(3)}`
/** Nothing listens there, so a developer's own Ollama is never used by a test. */
const NO_OLLAMA = { OLLAMA_HOST: 'http://127.0.0.1:9' }
/** Variables that enable providers stay out, so that a developer's own keys are never used by a test. */
const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG'] as const

/**
 * A gateway inside the test's process, with a socket of its own. Tests of crashes, signals, disks, memory, environment
 * or output use `startGatewayProcess`.
 */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const { data, key, file } = await prepare(options)
  if (options.data === undefined) await prepareStore(data)
  const loaded = loadConfig({ file, data, host: '127.0.0.1', port: '0' }, environmentOf(key, options))
  // Nothing is drained: a test that waits for requests in flight does so itself.
  const quiet: Config['log'] = { format: 'text', level: 'error', requests: 'none' }
  const config: Config = { ...loaded, log: quiet, timeouts: { ...loaded.timeouts, drainMs: 0 } }
  const { result: running, printed } = await withoutOutput(() => start(config))
  const started = { url: running.url, key, data, createdKeys: keysIn(printed) }
  return { ...started, stop: () => running.stop().then(() => audit(options, { data, file })) }
}

export async function startGatewayProcess(
  options: GatewayOptions & { disk?: SmallDisk; group?: Pick<MemoryGroup, 'command'> | undefined } = {},
): Promise<GatewayProcess> {
  const { disk, group } = options
  const { data, key, file } = await prepare(options)
  const serve = [program(), 'serve', '--config', file, '--data', data, '--port', '0']
  const child = Bun.spawn([...(group?.command ?? []), ...(disk?.command ?? []), ...serve], {
    env: {
      ...Object.fromEntries(INHERITED.map((name) => [name, process.env[name]])),
      ...LATE_COMPILERS,
      ...environmentOf(key, options),
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const printed = { stdout: '', stderr: '' }
  const url = await new Promise<string>((resolve, reject) => {
    void collect(child.stdout, (text) => {
      printed.stdout += text
      const found = /^listening on (\S+)$/m.exec(printed.stdout)?.[1]
      if (found !== undefined) resolve(found)
    })
    void collect(child.stderr, (text) => {
      printed.stderr += text
    })
    void child.exited.then((code) =>
      reject(new Error(`sluice ended with ${code} before it listened:\n${printed.stdout}${printed.stderr}`)),
    )
  })
  return {
    url,
    key,
    data,
    pid: child.pid,
    exited: child.exited,
    createdKeys: keysIn(printed.stdout),
    output: () => printed,
    kill: (signal) => child.kill(signal),
    stop: async () => {
      child.kill('SIGKILL')
      await child.exited
      await audit(options, { data, file })
    },
  }
}

type Prepared = { data: string; key: string; file: string }

async function prepare(options: GatewayOptions & { disk?: SmallDisk }): Promise<Prepared> {
  const { disk } = options
  const data = disk?.path ?? options.data ?? mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const file = join(disk?.folder ?? data, 'test-config.yaml')
  if (disk !== undefined || options.data !== undefined) await declareDead(data)
  writeFileSync(file, await withStoreText(withTextLog(withBilling(options.config ?? '')), data))
  return { data, key: options.key ?? DEFAULT_KEY, file }
}

const environmentOf = (key: string, { env }: GatewayOptions): Record<string, string> => ({
  SLUICE_KEY: key,
  ...NO_OLLAMA,
  ...env,
})

/** Tests whose configuration has no billing section use models without a price. */
const withBilling = (config: string): string =>
  /^billing:/m.test(config) ? config : `${config.replace(/^\{\}\n/, '')}\nbilling: { unpriced: free }\n`

/** Tests read the lines as text, also where the output is no terminal. */
const withTextLog = (config: string): string => (/^log:/m.test(config) ? config : `${config}\nlog: { format: text }\n`)

/** Removes the data folder of a gateway that has ended, unless the test gave it. */
async function audit(
  options: GatewayOptions & { disk?: SmallDisk },
  { data, file }: Pick<Prepared, 'data' | 'file'>,
): Promise<void> {
  const { disk } = options
  try {
    await expectBookRight(disk?.copy() ?? data, loadConfig({ file }, { ...options.env }).billing.overdraft)
  } finally {
    if (options.data === undefined && disk === undefined) rmSync(data, { recursive: true, force: true })
  }
}

const keysIn = (printed: string): Record<string, string> =>
  Object.fromEntries([...printed.matchAll(/^key (\S+) (\S+)$/gm)].map(([, kind = '', text = '']) => [kind, text]))

let lastStart: Promise<unknown> = Promise.resolve()

/** Keeps the lines of a start out of the test's own output. One start at a time, because they share the console. */
function withoutOutput<T>(run: () => Promise<T>): Promise<{ result: T; printed: string }> {
  const next = lastStart.then(() => captured(run))
  lastStart = next.catch(() => {})
  return next
}

async function captured<T>(run: () => Promise<T>): Promise<{ result: T; printed: string }> {
  const { log, error } = console
  let printed = ''
  console.log = (...words: unknown[]) => void (printed += `${words.join(' ')}\n`)
  console.error = () => {}
  try {
    const result = await run()
    return { result, printed }
  } finally {
    Object.assign(console, { log, error })
  }
}

async function collect(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  for await (const chunk of stream) take(decoder.decode(chunk, { stream: true }))
}
