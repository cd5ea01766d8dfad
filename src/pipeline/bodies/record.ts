import { decrypted, encrypted } from '../../accounts/encryption.ts'
import type { Arrival } from './timed-text.ts'

/** The bodies of a request, in the order in which they were sent. */
export const PART_NAMES = ['client_request', 'provider_request', 'provider_answer', 'client_answer'] as const
export type PartName = (typeof PART_NAMES)[number]

/** One body with its head, as it is stored. `bytes`: on the wire; `cut`: of those, what is left out. */
export type RecordedPart = {
  name: PartName
  /** The address of a request to a provider, without its query. */
  url: string | null
  /** Null for requests. */
  status: number | null
  headers: [name: string, value: string][]
  bytes: number
  cut: number
  text: string
  times: Arrival[]
}

/** Compressed and encrypted for the request with this id. */
export const writeRecord = (key: Uint8Array, id: string, parts: readonly RecordedPart[]): Buffer =>
  encrypted(key, Bun.zstdCompressSync(JSON.stringify(parts)), id)

/** Throws an Error for bytes that are not this request's. */
export const readRecord = (key: Uint8Array, id: string, bytes: Uint8Array): RecordedPart[] =>
  JSON.parse(Bun.zstdDecompressSync(decrypted(key, bytes, id)).toString()) as RecordedPart[]
