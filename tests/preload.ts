import { expect } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** True where system calls of a child process can be replaced. */
export const CAN_PRELOAD = process.platform === 'linux' && Bun.which('cc') !== null

/** Compiles C code that replaces system calls, and returns the environment for a process that uses it. */
export function preload(folder: string, code: string): { LD_PRELOAD: string } {
  const [source, library] = [join(folder, 'preload.c'), join(folder, 'preload.so')]
  writeFileSync(source, code)
  expect(Bun.spawnSync(['cc', '-shared', '-fPIC', '-o', library, source, '-ldl']).exitCode).toBe(0)
  return { LD_PRELOAD: library }
}
