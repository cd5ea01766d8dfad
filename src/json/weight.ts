/**
 * The most that the body of a request may contain. `elements`: values, containers included. `depth`: levels. `parts`:
 * objects in the arrays of its conversation. `tools`: tools, with the functions in them.
 */
export type BodyLimits = { elements: number; depth: number; parts: number; tools: number }

/** The contents of a body, on which the time to read, translate and write it depends. `widest`: most members. */
export type BodyWeight = { elements: number; parts: number; tools: number; widest: number }

/** Members of one object. Names that are numbers are slow to insert, in any object. */
export const MAX_MEMBERS = 10_000

/** The first limit that a body exceeds, for an error message. */
export function excess({ elements, parts, tools, widest }: BodyWeight, limits: BodyLimits): string | undefined {
  if (elements > limits.elements)
    return `must have at most ${limits.elements} values, not ${elements} (limits.elements)`
  if (parts > limits.parts)
    return `must have at most ${limits.parts} messages, parts, items and calls together, not ${parts} (limits.parts)`
  if (tools > limits.tools) return `must have at most ${limits.tools} tools, not ${tools} (limits.tools)`
  return widest > MAX_MEMBERS ? `must have at most ${MAX_MEMBERS} members in one object, not ${widest}` : undefined
}
