import type { Fields } from './fields.ts'

/** Fields that only the client's own protocol knows, by path. */
export type Extras = Record<string, unknown>

/** Adds the members of an object that its reader did not take. */
export function collectExtras(fields: Fields, extras: Extras): void {
  for (const [name, value] of Object.entries(fields.rest())) extras[fields.at(name)] = value
}
