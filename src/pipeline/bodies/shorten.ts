import type { RedactedText } from '../../config/terms.ts'
import { SECRET_PATTERNS } from '../../log/secrets.ts'
import type { TimedText } from './timed-text.ts'

/** Runs of base64 that are longer become their type, size and digest. */
const RUN_LEAST = 512
const DIGIT = '[A-Za-z0-9+/_-]'
// Nothing is looked for within a run, which would take a time that grows with its square.
const RUN = new RegExp(`(?:data:([\\w.+/-]{1,80});base64,|(?<!${DIGIT}))${DIGIT}{${RUN_LEAST},}={0,2}`, 'g')
/** The characters before a run among which its media type is looked for. */
const BEFORE = 200
const MEDIA_TYPE = /"(?:media_type|mimeType|mime_type)"\s*:\s*"([\w.+/-]{1,80})"(?![\s\S]*"(?:media_type|mime)")/

/** Media and other long data become `<image/png 1.2 MB sha256 0123abcd>`. */
export function shortenData(text: TimedText): void {
  const whole = text.text
  text.replace(RUN, (match) => {
    const [found, typeInUrl] = match
    const data = typeInUrl === undefined ? found : found.slice(found.indexOf(',') + 1)
    if (!isData(data)) return undefined
    const before = whole.slice(Math.max(0, match.index - BEFORE), match.index)
    const type = typeInUrl ?? MEDIA_TYPE.exec(before)?.[1] ?? 'base64'
    const bytes = Buffer.from(data, 'base64')
    const digest = new Bun.CryptoHasher('sha256').update(bytes).digest('hex').slice(0, 16)
    return `<${type} ${sizeText(bytes.length)} sha256 ${digest}>`
  })
}

/** Long words of a language, and rows of one letter, are no data. */
const isData = (text: string): boolean => /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text)

const sizeText = (bytes: number): string =>
  bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`

const EMAIL = /[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}\b/gi
/** International, or national with its separators. */
const PHONE =
  /(?<![\w.+-])(?:\+\d{1,3}[ .\-/]?(?:\(?\d{1,5}\)?[ .\-/]?){2,5}\d{1,4}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w-])/g
const CARD = /(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w.])/g
const PHONE_DIGITS_LEAST = 8

/** Blanks credentials, and texts of these kinds. `credentials`: those that are configured. */
export function blankTexts(text: TimedText, kinds: readonly RedactedText[], credentials: readonly string[]): void {
  for (const credential of credentials) text.replaceText(credential, '[hidden]')
  for (const [pattern, by] of SECRET_PATTERNS)
    text.replace(pattern, (match) => by.replace(/\$(\d)/g, (_, group: string) => match[Number(group)] ?? ''))
  if (kinds.includes('emails')) text.replace(EMAIL, () => '[e-mail]')
  if (kinds.includes('cards')) text.replace(CARD, ([found]) => (isCard(found) ? '[card]' : undefined))
  if (kinds.includes('phones'))
    text.replace(PHONE, ([found]) => (digitsOf(found).length >= PHONE_DIGITS_LEAST ? '[phone]' : undefined))
}

const digitsOf = (text: string): string => text.replace(/\D/g, '')

/** The checksum of card numbers (Luhn). */
function isCard(text: string): boolean {
  let sum = 0
  for (const [index, digit] of [...digitsOf(text)].reverse().entries()) {
    const doubled = Number(digit) * (index % 2 === 0 ? 1 : 2)
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}
