import type { StoredKey } from './accounts.ts'

/** A key as stores read it. `limit`: a text, since integers of databases arrive in JavaScript as doubles. */
export type ReadKey = Omit<StoredKey, 'models' | 'limit'> & Record<'models' | 'limit', string | null>

export const keyOf = ({ models, limit, ...row }: ReadKey): StoredKey => ({
  ...row,
  models: models === null ? null : (JSON.parse(models) as string[]),
  limit: limit === null ? null : BigInt(limit),
})

/** The models of a key as they are stored. */
export const modelsText = ({ models }: Pick<StoredKey, 'models'>): string | null =>
  models === null ? null : JSON.stringify(models)
