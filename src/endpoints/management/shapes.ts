import type { ConfigLocation } from '../../config/location.ts'
import { number, string, type Shape } from '../../config/shape.ts'
import { nanoOf, type Nano } from '../../money.ts'

/** Shapes of values that the API has and sluice.yaml does not. */

/** A member that may be null, which clears it. */
export const nullable = <T>(of: Shape<T>): Shape<T | null> => ({
  schema: { anyOf: [of.schema, { type: 'null' }] },
  read: (location) => (location.empty ? null : of.read(location)),
})

/** Below a billion USD: the store has 64 bits for nano-USD. */
const AMOUNT = /^-?\d{1,9}(?:\.\d{1,9})?$/

/** USD as a decimal string, read as nano-USD. */
export const usdAmount = (description: string, isSigned = false): Shape<Nano> => ({
  schema: { type: 'string', pattern: (isSigned ? AMOUNT : /^\d{1,9}(?:\.\d{1,9})?$/).source, description },
  read(location) {
    const what = `a string with an amount of USD, such as "12.5", of at most nine decimals`
    const text = location.text(what)
    if (text === undefined) return undefined
    return AMOUNT.test(text) && (isSigned || !text.startsWith('-')) ? nanoOf(text) : location.fail(`must be ${what}`)
  },
})

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/

/** Unix milliseconds; NaN also for a day that its month does not have, which would be one of the next month. */
export function parseInstant(text: string): number {
  const day = text.slice(0, 10)
  const midnight = new Date(`${day}T00:00:00Z`)
  return Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(day) ? NaN : Date.parse(text)
}

/** An instant in ISO 8601 with its zone, read as Unix milliseconds. */
export const instantShape = (description: string): Shape<number> => ({
  schema: { type: 'string', format: 'date-time', description },
  read(location) {
    const what = 'an instant with its zone, such as "2027-01-31T12:00:00Z"'
    const text = location.text(what)
    if (text === undefined) return undefined
    const at = INSTANT.test(text) ? parseInstant(text) : NaN
    return Number.isNaN(at) ? location.fail(`must be ${what}`) : at
  },
})

/** A text for people, on one line. */
export const line = (what: string, most: number): Shape<string> =>
  string({
    what,
    check: (text) =>
      text.trim() === '' || text.length > most || /\p{C}/u.test(text)
        ? `must have 1 to ${most} characters that can be shown`
        : undefined,
  })

/** The id or name of an account. */
export const accountShape: Shape<string> = string({ what: 'the id or name of an account' })

export const graceSeconds = number({ min: 0, max: 30 * 86_400, whole: true, description: 'Seconds' })

/** The value of an element of a list or null. */
export const valuesOf = <T>(
  list: { value: T; location: ConfigLocation }[] | null | undefined,
): T[] | null | undefined => list?.map(({ value }) => value) ?? (list === null ? null : undefined)
