import { createHash } from 'node:crypto'

/**
 * A provider's proof of its own reasoning. Opaque bytes, valid only at the provider and model that issued them: sent
 * back to their issuer byte for byte, left out for any other.
 */
export type Signature = {
  data: string
  /** Known if the client received it in an envelope through another protocol; absent for a provider's own value. */
  issuer?: Issuer
  /** Data for which the protocol that carried the envelope has no field. */
  note?: string
}

export type Issuer = { provider: string; model: string }

const MAGIC = 'slc1\0'
/** The beginning of every envelope: a cheap test whether a text can contain one. */
export const ENVELOPE_PREFIX = Buffer.from(MAGIC + '\0')
  .toString('base64')
  .slice(0, 6)

/** The issuer of an envelope that was changed: no target matches it. */
const NO_ISSUER: Issuer = { provider: '', model: '' }

/**
 * A signature in an envelope that names its issuer, for a client of another protocol. Standard base64, because Google's
 * field is bytes. Without an issuer the signature stays as it is. `note`: returned by `unwrapSignature`.
 */
export const wrapSignature = (data: string, issuer: Issuer | undefined, note = ''): string => {
  if (issuer === undefined) return data
  const body = `${issuer.provider}\0${issuer.model}\0${note}\0${data}`
  return Buffer.from(`${MAGIC}${digestOf(body)}\0${body}`).toString('base64')
}

/**
 * The inverse of `wrapSignature`; a value without an envelope is returned without an issuer. Both base64 alphabets are
 * read, since SDKs re-encode bytes.
 */
export const unwrapSignature = (text: string): Signature => {
  if (!text.startsWith(ENVELOPE_PREFIX)) return { data: text }
  const [magic, digest, ...rest] = Buffer.from(text.replaceAll('-', '+').replaceAll('_', '/'), 'base64')
    .toString()
    .split('\0')
  if (magic + '\0' !== MAGIC) return { data: text }
  const [provider, model, note, ...data] = rest
  if (provider === undefined || model === undefined || digest !== digestOf(rest.join('\0')))
    return { data: text, issuer: NO_ISSUER }
  return { data: data.join('\0'), issuer: { provider, model }, ...(note === '' ? {} : { note }) }
}

/**
 * Reasoning whose text the client wants omitted, as the note in the envelope of its signature: the issuer may require
 * the text beside it in the next request.
 */
export const hiddenText = (text: string): string => Buffer.from(text).toString('base64')
export const readHiddenText = (note: string): string => Buffer.from(note, 'base64').toString()

/**
 * Detects a signature that was truncated or altered: its provider would refuse the whole request. The digest is not a
 * secret, since the provider verifies its own signature anyway.
 */
const digestOf = (body: string): string => createHash('sha256').update(body).digest('base64url').slice(0, 12)

/**
 * True if the signature may be sent to this target: the target issued it, or it has no issuer and the client uses the
 * target's protocol.
 */
export const isReplayableAt = (signature: Signature, target: Issuer, sameProtocol: boolean): boolean =>
  signature.issuer === undefined
    ? sameProtocol
    : signature.issuer.provider === target.provider && signature.issuer.model === target.model
