import type { Config } from '../config/config.ts'
import type { LogLevel, LogRequests } from '../config/terms.ts'
import { LogOutput } from './output.ts'
import { describeError, plain, quoted } from './plain.ts'
import { scrub } from './secrets.ts'
import { jsonOf, textOf, timeOf, type RequestEntry } from './request-line.ts'

const RANK: Record<LogLevel, number> = { error: 0, warn: 1, info: 2 }

/** The log of this process, on stderr. Until it is configured it has lines of text, and none of requests. */
class Log {
  readonly #output = new LogOutput(
    () => Bun.stderr.writer(),
    (lines) => this.#line('warn', `${lines} lines of the log were dropped, because its reader is too slow`),
  )
  #isText = true
  #least: LogLevel = 'info'
  #requests: LogRequests = 'none'
  #writesAtExit = false

  configure({ format, level, requests }: Config['log']): void {
    this.#isText = format === undefined ? process.stderr.isTTY : format === 'text'
    this.#least = level
    this.#requests = requests
  }

  /** For an error that is not the client's. `error`: its cause, of which the stack is written. */
  error(message: string, error?: unknown): void {
    this.#add('error', message, error)
  }

  warn(message: string): void {
    this.#add('warn', message)
  }

  info(message: string): void {
    this.#add('info', message)
  }

  /** Lines for people alone, as they are. */
  hint(text: string): void {
    if (this.#isText && this.#least === 'info') this.#write(`${text}\n`)
  }

  get hasRequests(): boolean {
    return this.#requests !== 'none'
  }

  /** True where requests of this level have a line. */
  hasRequestsOf(level: LogLevel): boolean {
    return this.#requests === 'all' || (this.#requests === 'errors' && level !== 'info')
  }

  /** Since the start. */
  get droppedLines(): number {
    return this.#output.dropped
  }

  /** The line of a request that has ended. */
  request(entry: RequestEntry): void {
    this.#write(this.#isText ? textOf(entry) : jsonOf(entry), true)
  }

  /** Resolves when everything is written, or after this time. */
  flushed(atMostMs: number): Promise<void> {
    return this.#output.flushed(atMostMs)
  }

  #add(level: LogLevel, message: string, error?: unknown): void {
    if (RANK[level] > RANK[this.#least]) return
    this.#write(this.#line(level, message, error))
  }

  #line(level: LogLevel, message: string, error?: unknown): string {
    const text = scrub(message)
    const stack = error === undefined ? undefined : describeError(error)
    const now = new Date()
    if (this.#isText) {
      const [first = '', ...others] = `${text}${stack === undefined ? '' : `\n${stack}`}`.split('\n')
      const rest = others.map((line) => `    ${plain(line)}\n`).join('')
      return `${timeOf(now.getTime())} ${level.padEnd(5)} ${plain(first)}\n${rest}`
    }
    const fields = `"time":"${now.toISOString()}","level":"${level}","message":${quoted(text)}`
    return stack === undefined ? `{${fields}}\n` : `{${fields},"error":${quoted(stack)}}\n`
  }

  #write(line: string, mayWait = false): void {
    if (!this.#writesAtExit) {
      this.#writesAtExit = true
      process.once('exit', () => this.#output.writeNow())
    }
    this.#output.add(line, mayWait)
  }
}

export const log = new Log()
