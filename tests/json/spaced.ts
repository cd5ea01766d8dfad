import fc from 'fast-check'

/** Prints JSON the way providers do: with spaces and line breaks where the grammar allows them. */
export const spaced = (value: unknown, space: string): string => JSON.stringify(value, null, space)

export const objects = fc.dictionary(fc.string(), fc.jsonValue())
export const spaces = fc.constantFrom('', ' ', '  ', '\t')
