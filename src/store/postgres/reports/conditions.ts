import type { Binding } from '../client.ts'
import { jsonOf } from '../values.ts'

/** The values of a statement in the order of their places. */
export class Values {
  readonly list: Binding[] = []

  /** Adds a value, and gives its place: `$1`. */
  add(value: Binding): string {
    return `$${this.list.push(value)}`
  }

  /** The condition that a column has one of these texts. */
  readonly isIn = (column: string, texts: readonly string[]): string =>
    `${column} = ANY (ARRAY(SELECT jsonb_array_elements_text(${this.add(jsonOf(texts))}::text::jsonb)))`
}
