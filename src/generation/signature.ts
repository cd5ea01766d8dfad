import { createHash } from 'node:crypto'

/**
 * A provider's proof over its own reasoning. Opaque bytes, bound to the provider and model that made them: replayed to
 * their maker byte for byte, left out for anyone else.
 */
export type Signature = {
  data: string
  /**
   * Who made it, where known: it came to the client sealed through another protocol. Absent: the client's own
   * protocol's plain value.
   */
  issuer?: Issuer
  /** What the protocol it came through has no other place for. */
  note?: string
}

export type Issuer = { provider: string; model: string }

const MAGIC = 'slc1\0'
/** How every sealed signature begins: tells cheaply whether a text may hold one. */
export const ENVELOPE_PREFIX = Buffer.from(MAGIC + '\0')
  .toString('base64')
  .slice(0, 6)

/** What was changed on its way: it belongs to nobody. */
const NOBODY: Issuer = { provider: '', model: '' }

/**
 * Wraps a signature for a client that speaks another protocol than its maker. Plain base64, because Google's field is
 * bytes. `note`: for `unseal`.
 */
export const wrapSignature = (data: string, issuer: Issuer | undefined, note = ''): string => {
  if (issuer === undefined) return data
  const body = `${issuer.provider}\0${issuer.model}\0${note}\0${data}`
  return Buffer.from(`${MAGIC}${digestOf(body)}\0${body}`).toString('base64')
}

/**
 * Undoes `seal`; a plain value comes back as itself without a maker. Base64 of either alphabet is read, since SDKs
 * re-encode bytes.
 */
export const unwrapSignature = (text: string): Signature => {
  if (!text.startsWith(ENVELOPE_PREFIX)) return { data: text }
  const [magic, digest, ...rest] = Buffer.from(text.replaceAll('-', '+').replaceAll('_', '/'), 'base64')
    .toString()
    .split('\0')
  if (magic + '\0' !== MAGIC) return { data: text }
  const [provider, model, note, ...data] = rest
  if (provider === undefined || model === undefined || digest !== digestOf(rest.join('\0')))
    return { data: text, issuer: NOBODY }
  return { data: data.join('\0'), issuer: { provider, model }, ...(note === '' ? {} : { note }) }
}

/**
 * A provider refuses all of a request for a signature that was cut short or altered. Who forges one has forged what its
 * maker checks anyway.
 */
const digestOf = (body: string): string => createHash('sha256').update(body).digest('base64url').slice(0, 12)

/**
 * Whether a signature may be sent to this target: it made it, or the client speaks the target's protocol and replays a
 * plain one.
 */
export const belongsTo = (signature: Signature, target: Issuer, sameProtocol: boolean): boolean =>
  signature.issuer === undefined
    ? sameProtocol
    : signature.issuer.provider === target.provider && signature.issuer.model === target.model
