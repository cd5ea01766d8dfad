import { createHash } from 'node:crypto'
import { decrypted, encrypted } from '../accounts/encryption.ts'
import type { GenerationRequest } from '../generation/request.ts'
import type { Issuer } from '../generation/signature.ts'
import { lacksState, restoreTurn, ReplayRecorder, unsignedTurns, type ReplayState } from '../generation/replay.ts'
import type { Target } from '../protocols/protocol.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Store } from '../store/store.ts'

/** Bytes kept for one account; beyond that the oldest are removed. */
const ACCOUNT_BYTES = 64 * 2 ** 20

/** Bytes restored into one request, the newest turns first. */
const REQUEST_BYTES = 8 * 2 ** 20

/** Bytes that are kept for an account. */
type Use = { accountId: string; issuer: Issuer; bytes: number }

/** A request with its restored reasoning, and the bytes of that. */
type RestoredRequest = { request: GenerationRequest; replayStates: ReplayState[]; bytes: number }

/**
 * Keeps for a time the signed reasoning that providers require beside tool calls, for clients that send back only the
 * calls: by account and call id, as the client knows it. It is encrypted with a key derived from that id, which is not
 * stored.
 */
export class ReasoningReplay {
  readonly #store: Store
  /** For what is saved from now on. */
  keepMs: number
  readonly #now: () => number
  /**
   * Bytes and issuers of what is kept, by account: nothing else is looked up in the store. Until the next purge it may
   * list more than there is.
   */
  #uses = new Map<string, { bytes: number; issuers: Set<string> }>()
  /** Entries that are being written: the store does not list them yet. */
  readonly #saving = new Set<Use>()

  private constructor(store: Store, keepMs: number, now: () => number) {
    this.#store = store
    this.keepMs = keepMs
    this.#now = now
  }

  /** Opens it, with expired entries removed. */
  static async open(store: Store, keepMs: number, now: () => number = Date.now): Promise<ReasoningReplay> {
    const replay = new ReasoningReplay(store, keepMs, now)
    await replay.purge()
    return replay
  }

  #use({ accountId, issuer, bytes }: Use): void {
    const use = this.#uses.get(accountId) ?? { bytes: 0, issuers: new Set() }
    use.bytes += bytes
    use.issuers.add(issuerKey(issuer))
    this.#uses.set(accountId, use)
  }

  /**
   * The recorder for a response that may call tools; undefined for any other. A provider that is known to read earlier
   * reasoning as unsigned text gets that back.
   */
  replayRecorder(hasTools: boolean, { provider, model, quirks }: Target): ReplayRecorder | undefined {
    return this.keepMs > 0 && hasTools
      ? new ReplayRecorder({ provider, model }, quirks.replaysReasoning === true)
      : undefined
  }

  /**
   * Stores the replay state of a response, if there is one: committed with everything else that is handed to the store
   * in this turn of the event loop.
   */
  async keep(accountId: string, { replayState }: ReplayRecorder): Promise<void> {
    if (replayState === undefined) return
    const { issuer } = replayState
    const { key, secret } = storageKey(accountId, replayState.call.id)
    const sealed = encrypted(secret, Buffer.from(JSON.stringify(replayState)))
    const bytes = this.#uses.get(accountId)?.bytes ?? 0
    const toFree = Math.min(bytes, Math.max(0, bytes + sealed.length - ACCOUNT_BYTES))
    const saving = { accountId, issuer, bytes: sealed.length - toFree }
    this.#use(saving)
    this.#saving.add(saving)
    try {
      await this.#store.reasoning.save(
        {
          accountId,
          key,
          provider: issuer.provider,
          model: issuer.model,
          expiresAt: this.#now() + this.keepMs,
          sealed,
        },
        toFree,
      )
    } finally {
      this.#saving.delete(saving)
    }
  }

  /** Reports whether reasoning is kept that one of these endpoints has signed for this account. */
  mayRestore(accountId: string, endpoints: readonly Endpoint[]): boolean {
    const issuers = this.keepMs > 0 ? this.#uses.get(accountId)?.issuers : undefined
    return issuers !== undefined && endpoints.some(({ target }) => issuers.has(issuerKey(target)))
  }

  /** Restores what the client left out of earlier turns, where one of these endpoints has signed it. */
  async restore(
    accountId: string,
    request: GenerationRequest,
    endpoints: readonly Endpoint[],
  ): Promise<RestoredRequest> {
    return restoreReasoning(accountId, request, this.candidates(accountId, endpoints), (keys) =>
      this.find(accountId, keys),
    )
  }

  /** Those of the endpoints, as issuers, whose reasoning is kept for this account. */
  candidates(accountId: string, endpoints: readonly Endpoint[]): ReadonlySet<string> {
    const issuers = this.keepMs > 0 ? this.#uses.get(accountId)?.issuers : undefined
    return new Set(endpoints.map(({ target }) => issuerKey(target)).filter((name) => issuers?.has(name) === true))
  }

  /** The entries under these keys, encrypted, up to the bytes that one request may have restored. */
  find(accountId: string, keys: string[]): Promise<ReadonlyMap<string, Uint8Array>> {
    return this.#store.reasoning.find(accountId, keys, REQUEST_BYTES, this.#now())
  }

  /** Removes what has expired; everything, where keeping is switched off. */
  async purge(): Promise<void> {
    await this.#store.reasoning.purge(this.keepMs > 0 ? this.#now() : Number.MAX_SAFE_INTEGER)
    const uses = await this.#store.reasoning.usage()
    this.#uses = new Map()
    for (const { accountId, bytes, ...issuer } of uses) this.#use({ accountId, issuer, bytes })
    for (const saving of this.#saving) this.#use(saving)
  }
}

/** Restores what the client left out of earlier turns and these issuers have signed. `find`: reads what is kept. */
export async function restoreReasoning(
  accountId: string,
  request: GenerationRequest,
  candidates: ReadonlySet<string>,
  find: (keys: string[]) => Promise<ReadonlyMap<string, Uint8Array>>,
): Promise<RestoredRequest> {
  if (candidates.size === 0) return { request, replayStates: [], bytes: 0 }
  const missing = unsignedTurns(request.turns)
    .reverse()
    .map((one) => ({ ...one, ...storageKey(accountId, one.call.id) }))
  if (missing.length === 0) return { request, replayStates: [], bytes: 0 }
  const found = await find(missing.map(({ key }) => key))
  const turns = [...request.turns]
  const replayStates: ReplayState[] = []
  let bytes = 0
  for (const { index, call, key, secret } of missing) {
    const sealed = found.get(key)
    if (sealed === undefined) continue
    const replayState = JSON.parse(decrypted(secret, sealed).toString()) as ReplayState
    const turn = turns[index]!
    if (!candidates.has(issuerKey(replayState.issuer)) || !lacksState(replayState, turn, call)) continue
    turns[index] = restoreTurn(turn, replayState)
    replayStates.push(replayState)
    bytes += sealed.length
  }
  return { request: { ...request, turns }, replayStates, bytes }
}

const issuerKey = ({ provider, model }: Issuer): string => `${provider}\n${model}`

/** The key under which a call is stored, and the secret that encrypts it: neither reveals the other, nor the id. */
function storageKey(accountId: string, callId: string): { key: string; secret: Buffer } {
  const digest = createHash('sha512').update(`${accountId}\n${callId}`).digest()
  return { key: digest.subarray(0, 32).toString('base64url'), secret: digest.subarray(32) }
}
