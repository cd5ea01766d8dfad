import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../error.ts'
import { log } from '../log/log.ts'
import { ReserveFile } from './reserve-file.ts'

/** The free space that is left for records and deletions: this share of the disk, at most these bytes. */
export type Reserve = { share: number; bytes: number }

type DiskSpaceOptions = {
  folder: string
  reserve: Reserve
  /** Bytes in the database that are used before it grows; negative where it is about to grow. */
  freeInDatabase: () => number
}

/** `keeping`: nothing new is kept, so that the rest remains for records. `all`: no generation begins either. */
type Refused = 'nothing' | 'keeping' | 'all'

/** The longest time for which a measurement is used while there are requests. */
const MEASURED_MS = 1_000
/** The same after a refusal. */
const REFUSED_MS = 100
/** Below this share of the reserve no generation begins: the rest is for those in flight, and for deletions. */
const LAST_SHARE = 1 / 2
/** The part of the reserve that is a file, and its maximum: hundreds of records and deletions. */
const FILE_SHARE = 1 / 4
const FILE_BYTES = 8 * 2 ** 20
/** More than the reserve has to be free before work is accepted again, so that a disk at its limit does not flap. */
const RECOVERED = 1.1
/** The log has a copy of each thing, and a response may be as long as its request. */
const COPIES = 3

const RETRY_SECONDS = 30

/** The free space of the disk of the data folder, and what is refused while it is short. */
export class DiskSpace {
  readonly #options: DiskSpaceOptions
  readonly #file: ReserveFile
  #refused: Refused = 'nothing'
  #free = Infinity
  /** The reserve in bytes, once it was measured. */
  #reserve = 0
  #measuredAt = -Infinity
  /** Bytes that were accepted since the last measurement. */
  #unmeasured = 0
  #measuring: Promise<void> | undefined

  constructor(options: DiskSpaceOptions) {
    this.#options = options
    this.#file = new ReserveFile(join(options.folder, 'reserve'))
  }

  /** Gives back the space of the reserve file when the disk is full; false if there is none. */
  giveBack(): boolean {
    return this.#file.giveBack()
  }

  /** True while nothing new is kept. */
  get isShort(): boolean {
    return this.#refused !== 'nothing'
  }

  /** Throws store_unavailable while the disk is nearly full. */
  checkGeneration(): void {
    this.#measureSoon()
    if (this.#refused === 'all')
      throw unavailable(
        `Sluice accepts no generations at the moment: its disk is nearly full (${this.#free} bytes are free). ` +
          'Deleting files and stored responses frees space.',
      )
  }

  /** Throws store_unavailable if the reserve would be used for keeping as much, beside what is `held` for others. */
  checkKeeping(bytes: number, held: number): void {
    this.#measureSoon()
    if (this.#refused !== 'nothing' || this.#free - COPIES * (this.#unmeasured + held + bytes) < this.#reserve) {
      this.#measuredAt = Math.min(this.#measuredAt, performance.now() - MEASURED_MS + REFUSED_MS)
      throw unavailable(
        `Sluice keeps nothing new at the moment: its disk has ${this.#free} bytes left, and ${this.#reserve} ` +
          'are for records and deletions (store.reserve). Send store: false, or delete files or stored responses.',
      )
    }
    this.#unmeasured += bytes
  }

  /** Measures the disk unless that was done within the last second. Resolves to what is refused, and why. */
  async shortage(): Promise<{ refused: Refused; reason: string }> {
    await (this.#measureSoon() ?? this.#measuring)
    const refused = this.#refused === 'all' ? 'generations and everything that is kept' : 'everything that is kept'
    return {
      refused: this.#refused,
      reason: `the disk has ${this.#free} bytes left of a reserve of ${this.#reserve}; refused: ${refused}`,
    }
  }

  /** Bytes that are free on the disk; null where it cannot be measured. */
  async free(): Promise<number | null> {
    const measured = await statfs(this.#options.folder).catch(() => undefined)
    return measured === undefined ? null : measured.bavail * measured.bsize
  }

  #measureSoon(): Promise<void> | undefined {
    const { share, bytes } = this.#options.reserve
    if (Math.min(share, bytes) === 0 || this.#measuring !== undefined) return undefined
    if (performance.now() - this.#measuredAt < MEASURED_MS) return undefined
    // A disk that cannot be measured is not a full one.
    return (this.#measuring = this.#measure()
      .catch(() => {})
      .finally(() => {
        this.#measuring = undefined
        this.#measuredAt = performance.now()
      }))
  }

  async #measure(): Promise<void> {
    const { folder, reserve, freeInDatabase } = this.#options
    const { blocks, bavail, bsize } = await statfs(folder)
    const available = bavail * bsize
    this.#reserve = Math.floor(Math.min(reserve.share * blocks * bsize, reserve.bytes))
    this.#free = Math.max(0, available + this.#file.size + freeInDatabase())
    this.#unmeasured = 0
    this.#setRefused(this.#toRefuse())
    const fileBytes = Math.floor(Math.min(this.#reserve * FILE_SHARE, FILE_BYTES))
    if (this.#file.size < fileBytes && available > 2 * fileBytes) await this.#file.fill(fileBytes)
  }

  #toRefuse(): Refused {
    const isShort = (bytes: number, isRefused: boolean): boolean => this.#free < bytes * (isRefused ? RECOVERED : 1)
    if (isShort(this.#reserve * LAST_SHARE, this.#refused === 'all')) return 'all'
    return isShort(this.#reserve, this.#refused !== 'nothing') ? 'keeping' : 'nothing'
  }

  #setRefused(refused: Refused): void {
    if (refused === this.#refused) return
    this.#refused = refused
    const left = `The disk of ${this.#options.folder} has ${this.#free} bytes left of a reserve of ${this.#reserve}.`
    log.warn(
      refused === 'nothing'
        ? `The disk of ${this.#options.folder} has ${this.#free} bytes left: accepting everything again.`
        : `${left} Refusing ${refused === 'all' ? 'generations and everything' : 'everything'} that is kept.`,
    )
  }
}

const unavailable = (message: string): GatewayError =>
  new GatewayError('store_unavailable', message, { retryAfterSeconds: RETRY_SECONDS, shouldRetry: true })
