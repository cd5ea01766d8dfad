/**
 * Texts of PostgreSQL cannot contain U+0000, which clients may send. It is stored as two characters, of which the first
 * is doubled where it means itself.
 */

const ESCAPE = '\u001b'

/** The text as it is stored. Equal texts stay equal, and different ones different. */
export const storedText = (text: string): string =>
  text.includes('\0') || text.includes(ESCAPE)
    ? text.replaceAll(ESCAPE, `${ESCAPE}1`).replaceAll('\0', `${ESCAPE}0`)
    : text

export const readText = (stored: string): string =>
  stored.includes(ESCAPE) ? stored.replaceAll(`${ESCAPE}0`, '\0').replaceAll(`${ESCAPE}1`, ESCAPE) : stored

const NOT_STORABLE = /\\u(?:0000|001b|d[89a-f])/i

/** Rows as JSON that PostgreSQL can read as `jsonb`; their texts are stored as those of parameters are. */
export function jsonOf(rows: unknown): string {
  const json = JSON.stringify(rows)
  return NOT_STORABLE.test(json)
    ? JSON.stringify(rows, (_, value: unknown) =>
        typeof value === 'string' ? storedText(value).toWellFormed() : value,
      )
    : json
}
