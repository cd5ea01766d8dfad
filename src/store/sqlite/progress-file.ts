import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { log } from '../../log/log.ts'

const { O_CREAT, O_RDWR } = constants

/** A process that is killed may leave the file half written that it was writing; the other one is whole. */
const NAMES = ['progress.0', 'progress.1'] as const

/**
 * A text that is replaced many times a second and survives the death of the process, not that of the machine: nothing
 * is flushed, so that a write is a copy in memory. A file is a line with number, length and hash, and the text.
 */
export class ProgressFile {
  readonly #folder: string
  #files: number[] | undefined
  #number = 0
  #hasFailed = false

  constructor(folder: string) {
    this.#folder = folder
  }

  write(text: string): void {
    try {
      this.#files ??= this.#open()
      this.#number++
      const bytes = Buffer.from(`${this.#number} ${Buffer.byteLength(text)} ${Bun.hash(text)}\n${text}`)
      writeSync(this.#files[this.#number % 2]!, bytes, 0, bytes.length, 0)
      this.#hasFailed = false
    } catch (error) {
      if (!this.#hasFailed)
        log.error(`Cannot write the progress of streams, which a crash would lose: ${(error as Error).message}`)
      this.#hasFailed = true
    }
  }

  /** A shorter text leaves the rest of an earlier one behind it, out of its length. */
  #open(): number[] {
    this.#number = latest(this.#folder)?.number ?? 0
    return NAMES.map((name) => openSync(join(this.#folder, name), O_RDWR | O_CREAT, 0o600))
  }

  /** The last text that was written whole, by any process. */
  read(): string | undefined {
    return latest(this.#folder)?.text
  }

  close(): void {
    for (const file of this.#files ?? []) closeSync(file)
    this.#files = undefined
  }
}

function latest(folder: string): { number: number; text: string } | undefined {
  const [first, second] = NAMES.map((name) => readWhole(join(folder, name)))
  return first === undefined || (second !== undefined && second.number > first.number) ? second : first
}

function readWhole(file: string): { number: number; text: string } | undefined {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch {
    return undefined
  }
  const end = bytes.indexOf(10)
  const [number, length, hash] = bytes.toString('latin1', 0, Math.max(0, end)).split(' ')
  const text = bytes.toString('utf8', end + 1, end + 1 + Number(length))
  return hash === String(Bun.hash(text)) ? { number: Number(number), text } : undefined
}
