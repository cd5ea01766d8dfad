import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { dirname, join } from 'node:path'

/** Where each version of control groups has the limit of a group. */
const LIMITS = [
  { mount: 'sys/fs/cgroup', controllers: '', file: 'memory.max' },
  { mount: 'sys/fs/cgroup/memory', controllers: 'memory', file: 'memory.limit_in_bytes' },
]

/**
 * Bytes of memory that this process may use: those of the machine, or of the smallest control group around it. `root`:
 * of the file system.
 */
export function machineMemory(root = '/', machine = totalmem()): number {
  let least = machine
  for (const { controllers, path } of groupsOf(root))
    for (const { mount, file, ...of } of LIMITS) {
      if (!controllers.split(',').includes(of.controllers)) continue
      for (const group of outward(path)) least = Math.min(least, limitIn(join(root, mount, group, file)))
    }
  return least
}

/** Lines `id:controllers:path`; the controllers of version 2 are empty. */
const groupsOf = (root: string): { controllers: string; path: string }[] =>
  (read(join(root, 'proc/self/cgroup')) ?? '')
    .split('\n')
    .map((line) => line.split(':'))
    .flatMap(([, controllers, ...path]) => (controllers === undefined ? [] : [{ controllers, path: path.join(':') }]))

/** A group and those around it. In a container the path may be one of the host: then only the root is there. */
function outward(path: string): string[] {
  const groups = [path]
  for (let group = path; group !== '/' && group !== '.'; group = dirname(group)) groups.push(dirname(group))
  return groups
}

/** `max`, and the huge number that means the same, are no limits. */
function limitIn(file: string): number {
  const text = read(file)?.trim()
  return text !== undefined && /^\d+$/.test(text) && text !== '0' ? Number(text) : Infinity
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
