import { readdirSync, readFileSync } from 'node:fs'

/** CPU time of each thread of a process until now. */
export type CpuTimes = ReadonlyMap<string, number>

const SECONDS_PER_NANOSECOND = 1e-9

/** From the scheduler, because `stat` counts in steps of 10 ms. Empty for a process that has ended. */
export const cpuTimes = (pid: number): CpuTimes =>
  new Map(
    threadsOf(pid).flatMap((thread) => {
      const text = read(`/proc/${pid}/task/${thread}/schedstat`)
      return text === undefined ? [] : [[thread, Number(text.split(' ')[0]) * SECONDS_PER_NANOSECOND]]
    }),
  )

/** CPU time of a process since an earlier time, without what threads used that have ended since then. */
export const cpuSecondsSince = (pid: number, before: CpuTimes): number =>
  [...cpuTimes(pid)].reduce((sum, [thread, seconds]) => sum + seconds - (before.get(thread) ?? 0), 0)

/** Threads on which JavaScriptCore compiles. */
const COMPILER = 'JITWorker\n'

/** CPU time of a process's JIT compiler until now; 0 for a process without one. */
export const compilerSeconds = (pid: number): number =>
  [...cpuTimes(pid)].reduce(
    (sum, [thread, seconds]) => (read(`/proc/${pid}/task/${thread}/comm`) === COMPILER ? sum + seconds : sum),
    0,
  )

export const residentMegabytes = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(read(`/proc/${pid}/status`) ?? '')?.[1] ?? NaN) / 1024

/** The processes that a process started, and those that these started. */
export const descendantsOf = (pid: number): number[] => {
  const children = threadsOf(pid).flatMap((thread) =>
    (read(`/proc/${pid}/task/${thread}/children`) ?? '').split(' ').filter((text) => text !== ''),
  )
  return children.flatMap((child) => [Number(child), ...descendantsOf(Number(child))])
}

const threadsOf = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

/** Undefined for a thread or process that has just ended. */
const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
