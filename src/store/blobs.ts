import { randomBytes } from 'node:crypto'
import { GatewayError } from '../error.ts'

/** The name of a new blob. */
export const newBlobName = (): string => randomBytes(16).toString('hex')

/** Thrown for bytes that are not those that were written. */
export class DamagedBlob extends GatewayError {
  constructor(message: string) {
    super('store_unavailable', message)
  }
}

/** The bytes of files and outputs, under random names. Methods throw GatewayError store_unavailable unless said. */
export interface BlobStore {
  /** The state of a place that can be away while the store is not. */
  readonly health?: BlobHealth | undefined
  /** Asks such a place whether it is there, where that is not known. Throws where it is not. */
  check?(): Promise<void>
  /** A new blob, which need not be readable before `keep`. `name`: of a copy, in place of what is there. */
  create(name?: string): Promise<BlobWriter>
  /** All bytes, in memory; undefined if there is no such blob. `size`: their number. */
  read(name: string, size: number): Promise<Uint8Array | undefined>
  /** Streams the bytes, or those of one range; undefined if there is no such blob. */
  respond(name: string, size: number, content: ContentRequest): Promise<Response | undefined>
  /** May be repeated, and removes what an earlier one has left. */
  remove(name: string): Promise<void>
  /** Names of blobs, in groups, that must have a row by now. Those that are left of a group are kept. */
  names(): AsyncIterable<string[]>
}

/** `range`: the header of the request. `headers`: of the response. */
export type ContentRequest = { range: string | null; headers: Record<string, string> }

/** A blob that is being written. */
export interface BlobWriter {
  readonly name: string
  write(bytes: Uint8Array): Promise<void>
  /** Resolves when the blob is durable under its name. */
  keep(): Promise<void>
  /** Removes the incomplete blob; does nothing after `keep`. Never fails. */
  discard(): Promise<void>
}

/** The state of a place of blobs, as far as it is known from what was asked of it. */
export interface BlobHealth {
  /** The reason why something failed last; undefined where all works. */
  readonly outage: string | undefined
  /** The number of requests by operation and outcome, which are few words. */
  readonly requests: ReadonlyMap<string, ReadonlyMap<string, number>>
}
