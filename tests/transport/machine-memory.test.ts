import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { machineMemory } from '../../src/http/machine-memory.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** The memory of a machine with 1,000 bytes and these files. */
function memoryWith(files: Record<string, string>): number {
  const root = mkdtempSync(join(tmpdir(), 'sluice-root-'))
  folders.push(root)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
  return machineMemory(root, 1_000)
}

test('without control groups it is that of the machine', () => {
  expect(memoryWith({})).toBe(1_000)
  expect(machineMemory()).toBeGreaterThan(2 ** 26)
})

test('the smallest group around the process counts, in both versions', () => {
  expect(
    memoryWith({
      'proc/self/cgroup': '0::/outer/inner\n',
      'sys/fs/cgroup/outer/memory.max': '500\n',
      'sys/fs/cgroup/outer/inner/memory.max': 'max\n',
    }),
  ).toBe(500)
  expect(
    memoryWith({
      'proc/self/cgroup': '9:name=systemd:/\n4:memory:/outer/inner\n0::/\n',
      'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
      'sys/fs/cgroup/memory/outer/memory.limit_in_bytes': '700\n',
      'sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes': '600\n',
    }),
  ).toBe(600)
})

test('in a container that sees only its own group, that counts', () => {
  expect(memoryWith({ 'proc/self/cgroup': '0::/host/path\n', 'sys/fs/cgroup/memory.max': '400\n' })).toBe(400)
})
