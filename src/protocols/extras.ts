import type { Fields } from './fields.ts'

/** Fields that only the client's own protocol knows, by their path. */
export type Extras = Record<string, unknown>

/** What nobody took of an object is one of those. */
export function collectExtras(fields: Fields, extras: Extras): void {
  for (const [name, value] of Object.entries(fields.rest())) extras[fields.at(name)] = value
}
