/** Characters that wait at most: some thousands of lines. */
const WAITING_MAX = 1024 * 1024

/** The longest that lines of requests wait for each other: a write for each would cost more than making the line. */
const TOGETHER_MS = 20

/** A sink of the runtime, which does not block: `flush` gives a promise where the reader has to catch up first. */
export type LogSink = { write(text: string): unknown; flush(): unknown }

/**
 * Lines on their way to stderr. What is written in one turn of the event loop leaves in one write. A reader that is
 * too slow, or does not read at all, loses lines instead of holding up the server or filling its memory; the next line
 * that it gets is their number.
 */
export class LogOutput {
  readonly #open: () => LogSink
  readonly #lineOfDropped: (lines: number) => string
  #sink: LogSink | undefined
  #text = ''
  #droppedLines = 0
  /** Lines that were dropped since the start. */
  dropped = 0
  #isScheduled = false
  /** Set while lines that may wait do. */
  #timer: Timer | undefined
  /** Set while the reader has to catch up. */
  #writing: Promise<unknown> | undefined

  /** `dropped`: the line that says how many were lost. */
  constructor(open: () => LogSink, dropped: (lines: number) => string) {
    this.#open = open
    this.#lineOfDropped = dropped
  }

  /** `line` ends with a line feed. `mayWait`: it leaves with others, so that many of them cost few writes. */
  add(line: string, mayWait = false): void {
    if (this.#text.length + line.length > WAITING_MAX) {
      this.#droppedLines++
      this.dropped++
      return
    }
    this.#text += line
    if (this.#isScheduled || this.#writing !== undefined || (mayWait && this.#timer !== undefined)) return
    if (mayWait) this.#timer = setTimeout(this.#writeTurn, TOGETHER_MS)
    else {
      this.#isScheduled = true
      setImmediate(this.#writeTurn)
    }
  }

  readonly #writeTurn = (): void => {
    this.#isScheduled = false
    this.writeNow()
  }

  /** Writes what waits, as far as the reader takes it. */
  writeNow(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#writing !== undefined || (this.#text === '' && this.#droppedLines === 0)) return
    const text = this.#droppedLines === 0 ? this.#text : this.#text + this.#lineOfDropped(this.#droppedLines)
    this.#text = ''
    this.#droppedLines = 0
    try {
      this.#sink ??= this.#open()
      this.#sink.write(text)
      const flushed = this.#sink.flush()
      if (flushed instanceof Promise) this.#writing = flushed.then(this.#goOn, this.#goOn)
    } catch {
      // A reader that is gone needs no lines, and a server without one goes on.
    }
  }

  readonly #goOn = (): void => {
    this.#writing = undefined
    this.writeNow()
  }

  /** Resolves when everything is written, or after this time. */
  async flushed(atMostMs: number): Promise<void> {
    const deadline = performance.now() + atMostMs
    this.writeNow()
    while (this.#writing !== undefined && performance.now() < deadline)
      await Promise.race([this.#writing, Bun.sleep(deadline - performance.now())])
  }
}
