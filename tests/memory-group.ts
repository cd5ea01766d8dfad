import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A control group whose processes may use so much memory: with more they are killed. */
export class MemoryGroup {
  /** Prefix of a command line that starts a process in the group. */
  readonly command: readonly string[]
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
    this.command = ['sh', '-c', `echo $$ > ${join(folder, 'cgroup.procs')} && exec "$@"`, 'sh']
  }

  /** Undefined if this machine does not allow it. */
  static open(megabytes: number): MemoryGroup | undefined {
    const name = `sluice-test-${process.pid}-${megabytes}`
    for (const [parent, file] of parents()) {
      const folder = join(parent, name)
      try {
        mkdirSync(folder)
        if (!existsSync(join(folder, file))) throw new Error('no limit of memory in this group')
        writeFileSync(join(folder, file), String(megabytes * 2 ** 20))
        return new MemoryGroup(folder)
      } catch {
        if (existsSync(folder)) rmdirSync(folder)
      }
    }
    return undefined
  }

  /** Its processes must have been ended; the workers of a server end a moment after it. */
  close(): void {
    for (let tries = 0; tries < 500; tries++) {
      try {
        return rmdirSync(this.#folder)
      } catch (error) {
        if ((error as { code?: string }).code !== 'EBUSY') throw error
        Bun.sleepSync(20)
      }
    }
    throw new Error(`${this.#folder} still has processes`)
  }
}

/** The group of this process in each version of control groups, with the file that limits memory. */
function parents(): [folder: string, file: string][] {
  if (!existsSync('/proc/self/cgroup')) return []
  return readFileSync('/proc/self/cgroup', 'utf8')
    .split('\n')
    .flatMap((line): [string, string][] => {
      const [, controllers, path = '/'] = line.split(':')
      if (controllers === 'memory') return [[join('/sys/fs/cgroup/memory', path), 'memory.limit_in_bytes']]
      return controllers === '' ? [[join('/sys/fs/cgroup', path), 'memory.max']] : []
    })
}
