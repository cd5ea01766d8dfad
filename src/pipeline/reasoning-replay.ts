import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import type { GenerationRequest } from '../generation/request.ts'
import type { Issuer } from '../generation/signature.ts'
import { isMissing, restored, ReplayRecorder, unsigned, type ReplayState } from '../generation/replay.ts'
import type { Target } from '../protocols/protocol.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Store } from '../store/store.ts'

/** Most bytes kept for one account: beyond, the oldest go. */
const ACCOUNT_BYTES = 64 * 2 ** 20

/** Most bytes put back into one request, the newest turns first. */
const REQUEST_BYTES = 8 * 2 ** 20

/** What was put back into a request, and how many bytes that is. */
export type RestoredRequest = { request: GenerationRequest; replayStates: ReplayState[]; bytes: number }

/**
 * Remembers for a time what providers want back beside tool calls, for clients that send back nothing but the calls:
 * under account and call id, as the
 * client knows it. What is kept is sealed with that id, which is not kept itself.
 */
export class ReasoningReplay {
  readonly #store: Store
  readonly #keepMs: number
  readonly #now: () => number
  /**
   * Whose signatures are kept for whom: nobody else's are looked for. Where some were removed, more than there is until
   * the next purge.
   */
  #uses = new Map<string, { bytes: number; issuers: Set<string> }>()

  private constructor(store: Store, keepMs: number, now: () => number) {
    this.#store = store
    this.#keepMs = keepMs
    this.#now = now
  }

  /** With what has expired removed. */
  static async open(store: Store, keepMs: number, now: () => number = Date.now): Promise<ReasoningReplay> {
    const reasoning = new ReasoningReplay(store, keepMs, now)
    await reasoning.purge()
    return reasoning
  }

  #use(accountId: string, issuer: Issuer, bytes: number): void {
    const use = this.#uses.get(accountId) ?? { bytes: 0, issuers: new Set() }
    use.bytes += bytes
    use.issuers.add(nameOf(issuer))
    this.#uses.set(accountId, use)
  }

  /**
   * Hears the answer to a request that may call tools; undefined for any other. Where a provider is known to read
   * earlier reasoning as bare text, it wants that back.
   */
  replayRecorder(
    { tools }: GenerationRequest,
    { provider, model, quirks: { reasoningField } }: Target,
  ): ReplayRecorder | undefined {
    const bare = reasoningField === 'reasoning_content' || reasoningField === 'reasoning'
    return this.#keepMs > 0 && tools.length > 0 ? new ReplayRecorder({ provider, model }, bare) : undefined
  }

  /**
   * Keeps what was heard, if its provider will want it back: committed with what else is handed to the store in this
   * turn of the event loop.
   */
  async keep(accountId: string, { replayState }: ReplayRecorder): Promise<void> {
    if (replayState === undefined) return
    const { issuer } = replayState
    const { key, secret } = namesOf(accountId, replayState.call.id)
    const sealed = encrypt(JSON.stringify(replayState), secret)
    const bytes = this.#uses.get(accountId)?.bytes ?? 0
    const toFree = Math.min(bytes, Math.max(0, bytes + sealed.length - ACCOUNT_BYTES))
    this.#use(accountId, issuer, sealed.length - toFree)
    await this.#store.reasoning.save(
      { accountId, key, provider: issuer.provider, model: issuer.model, expiresAt: this.#now() + this.#keepMs, sealed },
      toFree,
    )
  }

  /** Puts back what the client left out of earlier turns and one of these endpoints signed. */
  async restore(
    accountId: string,
    request: GenerationRequest,
    endpoints: readonly Endpoint[],
  ): Promise<RestoredRequest> {
    const issuers = this.#keepMs > 0 ? this.#uses.get(accountId)?.issuers : undefined
    if (issuers === undefined) return { request, replayStates: [], bytes: 0 }
    const asked = new Set(endpoints.map(({ target }) => nameOf(target)).filter((name) => issuers.has(name)))
    const missing =
      asked.size > 0
        ? unsigned(request.turns)
            .reverse()
            .map((one) => ({ ...one, ...namesOf(accountId, one.call.id) }))
        : []
    if (missing.length === 0) return { request, replayStates: [], bytes: 0 }
    const found = await this.#store.reasoning.find(
      accountId,
      missing.map(({ key }) => key),
      REQUEST_BYTES,
      this.#now(),
    )
    const turns = [...request.turns]
    const replayStates: ReplayState[] = []
    let bytes = 0
    for (const { place, call, key, secret } of missing) {
      const sealed = found.get(key)
      if (sealed === undefined) continue
      const replayState = JSON.parse(decrypt(sealed, secret)) as ReplayState
      const turn = turns[place]!
      if (!asked.has(nameOf(replayState.issuer)) || !isMissing(replayState, turn, call)) continue
      turns[place] = restored(turn, replayState)
      replayStates.push(replayState)
      bytes += sealed.length
    }
    return { request: { ...request, turns }, replayStates, bytes }
  }

  /** Removes what has expired; all of it, where nothing is to be kept any more. */
  async purge(): Promise<void> {
    await this.#store.reasoning.purge(this.#keepMs > 0 ? this.#now() : Number.MAX_SAFE_INTEGER)
    const uses = await this.#store.reasoning.usage()
    this.#uses = new Map()
    for (const { accountId, bytes, ...issuer } of uses) this.#use(accountId, issuer, bytes)
  }
}

const nameOf = ({ provider, model }: Issuer): string => `${provider}\n${model}`

/**
 * Under which key a call's trace is kept, and the secret it is sealed with: neither tells the other, nor the call's id.
 */
function namesOf(accountId: string, callId: string): { key: string; secret: Buffer } {
  const digest = createHash('sha512').update(`${accountId}\n${callId}`).digest()
  return { key: digest.subarray(0, 32).toString('base64url'), secret: digest.subarray(32) }
}

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

function encrypt(text: string, secret: Buffer): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, secret, nonce)
  const body = [cipher.update(text), cipher.final()]
  return Buffer.concat([nonce, cipher.getAuthTag(), ...body])
}

function decrypt(sealed: Uint8Array, secret: Buffer): string {
  const body = NONCE_BYTES + TAG_BYTES
  const decipher = createDecipheriv(CIPHER, secret, sealed.subarray(0, NONCE_BYTES))
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, body))
  return Buffer.concat([decipher.update(sealed.subarray(body)), decipher.final()]).toString()
}
