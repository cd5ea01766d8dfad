import { mkdirSync } from 'node:fs'
import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const HOUR_MS = 3_600_000
const SUFFIX = '.bodies'
const NAME = /^\d{10}-[\w-]+\.bodies$/

/**
 * The files of bodies, each with what expires in one hour, written by one process. Its name begins with that hour, so
 * that whole files are removed, those that expire first before others.
 */
export class Segments {
  readonly #folder: string
  readonly #process = Bun.randomUUIDv7('base64url')
  #isMade = false

  constructor(dataFolder: string) {
    this.#folder = join(dataFolder, 'bodies')
  }

  /** The segment of this process for what expires at this time. */
  nameFor(expiresAt: number): string {
    return `${hourText(expiresAt + HOUR_MS - 1)}-${this.#process}${SUFFIX}`
  }

  pathOf(name: string): string {
    if (!this.#isMade) mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    this.#isMade = true
    return join(this.#folder, name)
  }

  /** Undefined where the segment is not there any more. */
  async read(name: string, offset: number, length: number): Promise<Uint8Array | undefined> {
    const file = await open(join(this.#folder, name), 'r').catch(() => undefined)
    if (file === undefined) return undefined
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset)
      return bytesRead === length ? buffer : undefined
    } finally {
      await file.close()
    }
  }

  /** Overwrites a record. Its space is free once the segment is removed. */
  async erase(name: string, offset: number, length: number): Promise<void> {
    const file = await open(join(this.#folder, name), 'r+').catch(() => undefined)
    if (file === undefined) return
    try {
      await file.write(Buffer.alloc(length), 0, length, offset)
      await file.datasync()
    } finally {
      await file.close()
    }
  }

  /** Removes the segments that have expired, then others until the rest has no more bytes. Gives their names. */
  async purge(now: number, mostBytes: number): Promise<string[]> {
    const names = (await readdir(this.#folder).catch(() => [])).filter((name) => NAME.test(name)).sort()
    const sizes = await Promise.all(names.map((name) => sizeOf(join(this.#folder, name))))
    let bytes = sizes.reduce((sum, size) => sum + size, 0)
    const removed: string[] = []
    for (const [index, name] of names.entries()) {
      if (name.slice(0, HOUR_LENGTH) > hourText(now) && bytes <= mostBytes) break
      await rm(join(this.#folder, name), { force: true })
      bytes -= sizes[index]!
      removed.push(name)
    }
    return removed
  }
}

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )

const HOUR_LENGTH = 10

/** `2026113014` */
const hourText = (at: number): string => new Date(at).toISOString().slice(0, 13).replace(/[-T]/g, '')
