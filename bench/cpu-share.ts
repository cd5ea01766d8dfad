import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Short, so that a process which has used its share waits for milliseconds only. */
const PERIOD_MICROS = 20_000
const ROOT = '/sys/fs/cgroup'

let groups = 0

/** Reports whether control groups can be made: they need Linux and root. */
export async function canLimitCpu(): Promise<boolean> {
  const child = Bun.spawn(['sleep', '60'])
  try {
    const limit = limitCpu(child.pid, 1)
    child.kill('SIGKILL')
    await child.exited
    limit.remove()
    return true
  } catch {
    return false
  } finally {
    child.kill('SIGKILL')
  }
}

/** The limit of one process: its share of one core, which can be changed, and the end of the limit. */
export type CpuLimit = { set(share: number): void; remove(): void }

/**
 * Leaves a process a share of one core, by a control group of its own, which is removed once the process has ended.
 * Throws where groups cannot be made.
 */
export function limitCpu(pid: number, share: number): CpuLimit {
  const isUnified = existsSync(join(ROOT, 'cgroup.controllers'))
  const group = join(isUnified ? ROOT : join(ROOT, 'cpu'), `sluice-bench-${process.pid}-${groups++}`)
  const set = (share: number): void => {
    const quota = Math.round(PERIOD_MICROS * share)
    if (isUnified) return writeFileSync(join(group, 'cpu.max'), `${quota} ${PERIOD_MICROS}`)
    writeFileSync(join(group, 'cpu.cfs_period_us'), String(PERIOD_MICROS))
    writeFileSync(join(group, 'cpu.cfs_quota_us'), String(quota))
  }
  if (isUnified) writeFileSync(join(ROOT, 'cgroup.subtree_control'), '+cpu')
  mkdirSync(group)
  set(share)
  writeFileSync(join(group, 'cgroup.procs'), String(pid))
  return { set, remove: () => rmdirSync(group) }
}
