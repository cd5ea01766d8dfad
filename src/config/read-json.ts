import { LineCounter, parseDocument } from 'yaml'
import { Source, TooManyValues } from './location.ts'
import type { Shape } from './shape.ts'

/** The first problem of a JSON text. `path`: where in the text. */
type JsonProblem = { path: string; message: string }

/**
 * The value of a text that is JSON, validated by a shape of sluice.yaml, or its first problem. `${NAME}` in it is
 * literal text.
 */
export function readJson<T>(text: string, shape: Shape<T>): { value: T } | { problem: JsonProblem } {
  const lines = new LineCounter()
  const source = new Source(parseDocument(text, { schema: 'json', lineCounter: lines, uniqueKeys: false }), lines)
  const root = source.root()
  try {
    const value = root === undefined ? undefined : shape.read(root)
    const [problem] = source.problems
    return problem === undefined ? { value: value! } : { problem }
  } catch (error) {
    if (error instanceof TooManyValues) return { problem: error.problem }
    throw error
  }
}
