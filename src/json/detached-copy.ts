/** The same well-formed text in memory of its own: a part of a text keeps all of it. */
export const detachedCopy = (part: string): string => Buffer.from(part).toString()
