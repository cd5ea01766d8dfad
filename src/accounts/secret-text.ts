import { randomBytes } from 'node:crypto'

/** A new text of 256 random bits for a link or a session. */
export const newSecret = (): string => randomBytes(32).toString('base64url')

/** The hash by which such a text is stored. It needs no pepper: the text cannot be guessed. */
export const hashOfSecret = (text: string): Uint8Array => new Bun.CryptoHasher('sha256').update(text).digest()
