import { acceptedName, type NameRule } from '../tool-names.ts'

/** Google's grammar of function names: a letter or underscore first, up to 64 characters. */
export const GOOGLE_NAMES: NameRule = {
  valid: /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/,
  invalid: /[^A-Za-z0-9_-]/g,
  longest: 64,
  prefix: '_',
}

export const sentName = (name: string): string => acceptedName(name, GOOGLE_NAMES)
