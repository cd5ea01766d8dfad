import { writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { type ErrorData, errorData } from './errors.ts'
import { type Message, MessageReader, piecesOf } from './messages.ts'

/** A job as the server sends it. */
export type JobRequest = { kind: string; input: unknown }

/** The end of a job: its output, or its error. `isSpent`: the process has grown too large to be kept. */
export type JobResult = ({ output: unknown } | { error: ErrorData } | { defect: string }) & { isSpent: boolean }

/** One kind of job: its output, and bytes beside it. It depends on nothing but its arguments. */
type JobHandler = (
  input: never,
  bytes: Buffer,
) => Promise<{ output: unknown; bytes?: readonly Uint8Array[] | undefined }>

/** A process of this size is ended after its job: the runtime returns memory late. */
const SPENT_BYTES = 256 * 2 ** 20
/** The size from which the garbage of a job is collected, since the next one would grow beyond it. */
const COLLECTED_BYTES = 128 * 2 ** 20
/** Growth after a collection from which there is another one: what the runtime keeps would cost 20 ms in every job. */
const GROWN_BYTES = 32 * 2 ** 20

/** Signals that a terminal sends to all processes of a group: the server decides when its worker ends. */
const GROUP_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']

/** Does the jobs that come on standard input, one after the other, until that ends. */
export async function serveJobs(handlers: Readonly<Record<string, JobHandler>>): Promise<void> {
  yieldToServer()
  let last: Promise<void> = Promise.resolve()
  const reader = new MessageReader((message) => {
    last = last.then(() => answer(handlers, message))
  })
  for await (const chunk of Bun.stdin.stream()) reader.push(chunk)
  process.exit(0)
}

/** The server goes first: in the use of the processor, and in what the system keeps when memory is short. */
export function yieldToServer(): void {
  for (const signal of GROUP_SIGNALS) process.on(signal, () => {})
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
    writeFileSync('/proc/self/oom_score_adj', '500')
  } catch {
    // Not every system has these.
  }
}

let collectedFrom = COLLECTED_BYTES

/** Reports whether the process has grown too large to be kept, after a collection where that may help. */
function isSpent(): boolean {
  const size = process.memoryUsage.rss
  if (size() > Math.min(collectedFrom, SPENT_BYTES)) {
    Bun.gc(true)
    collectedFrom = Math.max(COLLECTED_BYTES, size() + GROWN_BYTES)
  }
  return size() > SPENT_BYTES
}

async function answer(handlers: Readonly<Record<string, JobHandler>>, { value, bytes }: Message): Promise<void> {
  const { kind, input } = value as JobRequest
  try {
    const done = await handlers[kind]!(input as never, bytes)
    await send({ output: done.output, isSpent: isSpent() }, done.bytes)
  } catch (error) {
    const data = errorData(error)
    const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
    await send({ ...(data === undefined ? { defect: stack } : { error: data }), isSpent: isSpent() })
  }
}

const writer = Bun.stdout.writer()

async function send(result: JobResult, bytes: readonly Uint8Array[] = []): Promise<void> {
  for (const piece of piecesOf(result, bytes)) {
    writer.write(piece)
    await writer.flush()
  }
}
