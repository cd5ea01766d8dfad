import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { KEY_PREFIXES, type KeyKind } from '../config/terms.ts'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/**
 * A new key: prefix, 256 random bits as 43 base62 digits, and 6 digits of CRC-32 over all before them, so that secret
 * scanners recognise a leaked key offline. `bits`: for a text that can be made again.
 */
export function newKeyText(kind: KeyKind, bits: Buffer = randomBytes(32)): string {
  const secret = KEY_PREFIXES[kind] + base62(bits, 43)
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(secret))
  return secret + base62(checksum, 6)
}

/** A new id with 128 random bits: `key_...`, `acct_...`. */
export const newId = (prefix: string): string => `${prefix}_${base62(randomBytes(16), 22)}`

/** True where an operator may choose this text for a key: it must be long enough not to be guessed. */
export const isKeyText = (text: string, kind: KeyKind): boolean =>
  text.startsWith(KEY_PREFIXES[kind]) && /^[A-Za-z0-9_-]{16,200}$/.test(text.slice(KEY_PREFIXES[kind].length))

/** The rule of `isKeyText`, for error messages. */
export const keyTextRule = (kind: KeyKind): string => `${KEY_PREFIXES[kind]} and 16 to 200 letters, digits, "-" or "_"`

/** The keys that the operator chose, by kind. Throws an Error for the operator where one is invalid. */
export function chosenKeys(env: Record<string, string | undefined>): Partial<Record<KeyKind, string>> {
  const chosen: Partial<Record<KeyKind, string>> = {}
  for (const [name, kind] of CHOSEN) {
    const text = env[name]
    // Docker Compose passes an unset variable on as an empty one.
    if (text === undefined || text === '') continue
    if (!isKeyText(text, kind)) throw new Error(`${name} must be ${keyTextRule(kind)}`)
    chosen[kind] = text
  }
  return chosen
}

const CHOSEN = [
  ['SLUICE_KEY', 'pay-as-you-go'],
  ['SLUICE_MANAGEMENT_KEY', 'management'],
] as const

function base62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  for (; text.length < length; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text
  return text
}
