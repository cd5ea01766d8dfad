import { createHash, createHmac } from 'node:crypto'

/**
 * The sandbox's signatures: deterministic, and verifiable when a client sends them back, together with the content they
 * sign. 27 bytes in base64, because Google's field is bytes: magic, kind, digest of the subject, MAC over these.
 */
const MAGIC = 'sbx'
const SECRET = 'a sandbox keeps no secrets'
const SUBJECT_BYTES = 11
const MAC_BYTES = 12

/**
 * The signed kinds: reasoning (bound to its text), a call (bound to name and arguments) or a text (bound to nothing,
 * because clients join texts).
 */
export type SignatureKind = 'reasoning' | 'call' | 'text'

/** `issuer`: the protocol of the request. As with real models, no other issuer accepts the signature. */
export function sign(kind: SignatureKind, subject: string, issuer: string): string {
  const head = Buffer.concat([
    Buffer.from(MAGIC + kind[0]!),
    createHash('sha256').update(subject).digest().subarray(0, SUBJECT_BYTES),
  ])
  return Buffer.concat([head, mac(head, issuer)]).toString('base64')
}

/** The defect of a signature that came back, or undefined. An absent subject (hidden reasoning) is not compared. */
export function signatureDefect(
  signature: string,
  kind: SignatureKind,
  subject: string | undefined,
  issuer: string,
): string | undefined {
  const bytes = Buffer.from(signature.replaceAll('-', '+').replaceAll('_', '/'), 'base64')
  const hasFormat =
    bytes.length === MAGIC.length + 1 + SUBJECT_BYTES + MAC_BYTES &&
    bytes.subarray(0, MAGIC.length).toString() === MAGIC
  if (!hasFormat) return 'was not issued by this model'
  const head = bytes.subarray(0, -MAC_BYTES)
  if (!mac(head, issuer).equals(bytes.subarray(-MAC_BYTES))) return 'was altered or issued by another model'
  if (String.fromCharCode(head[MAGIC.length]!) !== kind[0]) return `does not sign a ${kind}`
  if (subject !== undefined && sign(kind, subject, issuer) !== bytes.toString('base64'))
    return `does not match the ${kind} it came with`
  return undefined
}

const mac = (head: Buffer, issuer: string): Buffer =>
  createHmac('sha256', SECRET).update(issuer).update(head).digest().subarray(0, MAC_BYTES)

/** A text as an authenticated token that fits in a URL path. Not encrypted. */
export function toToken(text: string, issuer: string): string {
  const bytes = Buffer.from(text)
  return Buffer.concat([mac(bytes, issuer), bytes]).toString('base64url')
}

/** The text of a token; undefined for anything that `toToken` did not return for this issuer. */
export function fromToken(token: string, issuer: string): string | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const text = bytes.subarray(MAC_BYTES)
  // Decoders accept other spellings of the same bytes.
  return bytes.length > MAC_BYTES &&
    bytes.toString('base64url') === token &&
    mac(text, issuer).equals(bytes.subarray(0, MAC_BYTES))
    ? text.toString()
    : undefined
}
