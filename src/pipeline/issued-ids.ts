import type { GatewayError } from '../error.ts'
import type { RequestSettings, Tool } from '../generation/request.ts'
import type { Usage } from '../generation/usage.ts'
import type { Frame } from '../http/frames.ts'
import { isObject, tryParse } from '../json/parse.ts'
import type { EarlyEnd, Passthrough, Protocol } from '../protocols/protocol.ts'
import type { Upstream } from '../providers/attempt.ts'
import type { Store } from '../store/store.ts'

/** As long as the objects of most providers exist at the longest. */
const KEEP_MS = 30 * 86_400_000

/** Ids of one account; beyond that the oldest are forgotten. */
const ACCOUNT_IDS = 1_000

/** Ids of one response, and characters of one id: a provider must not fill the store. */
const RESPONSE_IDS = 100
const ID_LENGTH = 512

/**
 * Remembers which account's responses named the objects that providers store (containers, files, audio), so that this
 * account can name them again. All accounts share the operator's key, so no other account may.
 */
export class IssuedIds {
  readonly #store: Pick<Store, 'issuedIds'>
  readonly #now: () => number

  constructor(store: Pick<Store, 'issuedIds'>, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /** The recorder of a response to a request that `makes` such objects; undefined for any other. */
  recorder(makes: boolean, { sameProtocol, protocol, endpoint }: Upstream): IssuedIdRecorder | undefined {
    return sameProtocol && makes ? new IssuedIdRecorder(protocol, endpoint.name) : undefined
  }

  /** Committed with everything else that is handed to the store in this turn of the event loop. */
  async keep(accountId: string, { ids, provider }: IssuedIdRecorder): Promise<void> {
    if (ids.size > 0) await this.#store.issuedIds.add(accountId, provider, [...ids], this.#now() + KEEP_MS, ACCOUNT_IDS)
  }

  /** The names of the endpoints that issued those of the ids that were issued to this account. */
  async find(accountId: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return ids.length === 0 ? NONE : this.#store.issuedIds.providersOf(accountId, ids, this.#now())
  }

  async purge(): Promise<void> {
    await this.#store.issuedIds.purge(this.#now())
  }
}

const NONE: ReadonlyMap<string, string> = new Map()

/** Reports whether a response may name objects at its provider: only its own tools, and audio, leave some there. */
export const makesObjects = ({ outputModalities }: RequestSettings, tools: readonly Tool[]): boolean =>
  outputModalities?.includes('audio') === true || tools.some(({ type }) => type === 'native')

/** Members whose values, or members, are ids in some protocol: everything else is not parsed again. */
const NAMES = /"(?:container|container_id|environment|file_id|audio|fileUri|file_uri)"/

/** Records the ids in the response of a provider, which its client gets unchanged. */
export class IssuedIdRecorder {
  readonly ids = new Set<string>()
  readonly provider: string
  readonly #protocol: Protocol

  constructor(protocol: Protocol, provider: string) {
    this.#protocol = protocol
    this.provider = provider
  }

  /** A whole response, or a frame of one. */
  record(text: string): void {
    if (!NAMES.test(text)) return
    const value = tryParse(text)
    if (isObject(value)) this.add(value)
  }

  /** The same, parsed. */
  add(value: Record<string, unknown>): void {
    for (const id of this.#protocol.call.issuedIds?.(value) ?? [])
      if (this.ids.size < RESPONSE_IDS && id !== '' && id.length <= ID_LENGTH) this.ids.add(id)
  }

  /** Records each frame that passes. */
  watching(passthrough: Passthrough): Passthrough {
    return {
      frame: (frame: Frame): Frame | undefined => {
        this.record(frame.data)
        return passthrough.frame(frame)
      },
      again: (passed: Frame, error: GatewayError): Frame[] => passthrough.again?.(passed, error) ?? [],
      endEarly: (end: EarlyEnd): Frame[] => passthrough.endEarly?.(end) ?? [],
      append: (text: string): void => passthrough.append?.(text),
      fail: (error: GatewayError): Frame[] => passthrough.fail(error),
      counted: (frame: Frame, usage: Usage): Frame => passthrough.counted?.(frame, usage) ?? frame,
      end: (counted?: Usage): Frame[] => passthrough.end?.(counted) ?? [],
      answer: (text: string, counted?: Usage): string => passthrough.answer(text, counted),
    }
  }
}
