import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts under a key of 32 bytes. `subject`: what it belongs to, without which it cannot be decrypted. */
export function encrypted(key: Uint8Array, data: Uint8Array, subject = ''): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce)
  cipher.setAAD(Buffer.from(subject))
  const body = Buffer.concat([cipher.update(data), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), body])
}

/** Throws an Error for bytes that were changed, or encrypted under another key or for another subject. */
export function decrypted(key: Uint8Array, bytes: Uint8Array, subject = ''): Buffer {
  const start = NONCE_BYTES + TAG_BYTES
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES))
  decipher.setAAD(Buffer.from(subject))
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, start))
  return Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()])
}
