import { createHash, createHmac } from 'node:crypto'

/**
 * The sandbox's signatures: deterministic, and able to prove on their return that they, and what they stand beside,
 * were not
 * altered. 27 bytes in base64, because Google's field is bytes: magic, kind, digest of the subject, digest over all of
 * it.
 */
const MAGIC = 'sbx'
const SECRET = 'a sandbox keeps no secrets'
const SUBJECT_BYTES = 11
const MAC_BYTES = 12

/**
 * What a signature stands beside: reasoning (bound to its text), a call (bound to name and arguments) or a text (bound
 * to nothing, since clients join texts).
 */
export type SealKind = 'reasoning' | 'call' | 'text'

/** `maker`: the protocol the model was asked in. Another one's signature is not accepted, as between real models. */
export function sign(kind: SealKind, subject: string, issuer: string): string {
  const head = Buffer.concat([
    Buffer.from(MAGIC + kind[0]!),
    createHash('sha256').update(subject).digest().subarray(0, SUBJECT_BYTES),
  ])
  return Buffer.concat([head, mac(head, issuer)]).toString('base64')
}

/**
 * What is wrong with a signature that came back, or undefined. An absent subject (hidden reasoning) is not compared.
 */
export function verify(
  signature: string,
  kind: SealKind,
  subject: string | undefined,
  issuer: string,
): string | undefined {
  const bytes = Buffer.from(signature.replaceAll('-', '+').replaceAll('_', '/'), 'base64')
  if (
    bytes.length !== MAGIC.length + 1 + SUBJECT_BYTES + MAC_BYTES ||
    bytes.subarray(0, MAGIC.length).toString() !== MAGIC
  )
    return 'is no signature of this model'
  const head = bytes.subarray(0, -MAC_BYTES)
  if (!mac(head, issuer).equals(bytes.subarray(-MAC_BYTES))) return 'was altered, or made by another model'
  if (String.fromCharCode(head[MAGIC.length]!) !== kind[0]) return `does not belong to a ${kind}`
  if (subject !== undefined && sign(kind, subject, issuer) !== bytes.toString('base64'))
    return `does not fit the ${kind} beside it`
  return undefined
}

const mac = (head: Buffer, issuer: string): Buffer =>
  createHmac('sha256', SECRET).update(issuer).update(head).digest().subarray(0, MAC_BYTES)

/** A text as something that stands in a path and is known again. Not secret. */
export function toToken(text: string, issuer: string): string {
  const bytes = Buffer.from(text)
  return Buffer.concat([mac(bytes, issuer), bytes]).toString('base64url')
}

/** The text of a token; undefined for anything that `toToken` did not make for this maker. */
export function fromToken(token: string, issuer: string): string | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const text = bytes.subarray(MAC_BYTES)
  // A decoder lets other spellings of the same bytes pass.
  return bytes.length > MAC_BYTES &&
    bytes.toString('base64url') === token &&
    mac(text, issuer).equals(bytes.subarray(0, MAC_BYTES))
    ? text.toString()
    : undefined
}
