import { LATE_COMPILERS, program } from '../program.ts'

export type Ran = { code: number; out: string; err: string }

/** Runs a command of Sluice to its end. `env`: variables besides `PATH`. */
export async function runSluice(
  words: readonly string[],
  { cwd, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Ran> {
  const child = Bun.spawn([program(), ...words], {
    ...(cwd === undefined ? {} : { cwd }),
    env: { PATH: process.env.PATH ?? '', ...LATE_COMPILERS, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, err }
}
