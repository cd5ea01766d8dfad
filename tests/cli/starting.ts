import { afterAll, beforeAll } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listening, type Started } from './listening.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { withStoreOption } from '../stores.ts'

/** Commands in a folder of their own, and servers that they start. */

/** The command line of a checkout; most tests take the executable, which starts faster. */
export const MODULES = [process.execPath, join(import.meta.dir, '../../src/main.ts')]

export let scratch: string

/** Makes the folder for the tests of a file. */
export function useScratch(): void {
  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  })
  afterAll(() => rmSync(scratch, { recursive: true, force: true }))
}

let folders = 0
export const newFolder = (): string => join(scratch, `data-${folders++}`)

export const start = (
  args: string[],
  env: Record<string, string> = {},
  command = [program()],
): Bun.Subprocess<'ignore', 'pipe', 'pipe'> =>
  Bun.spawn([...command, ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', HOME: scratch, ...LATE_COMPILERS, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })

export type Ended = { code: number; out: string; err: string }

export const run = async (...args: string[]): Promise<Ended> =>
  endOf(start(args.includes('--data') ? await withStoreOption(args) : args))

export async function endOf(child: ReturnType<typeof start>): Promise<Ended> {
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, err }
}

export const serve = async (folder: string, env: Record<string, string> = {}, command?: string[]): Promise<Started> =>
  listening(start(await withStoreOption(['serve', '--port', '0', '--data', folder]), env, command))

export const statusOf = async (url: string, key: string): Promise<number> => {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  await response.arrayBuffer()
  return response.status
}
