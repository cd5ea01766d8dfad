import type { GenerationRequest, Sampling } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { Word } from './places.ts'
import type { Loss } from './protocol.ts'

type Field = Word & (Exclude<keyof GenerationRequest, 'cache'> | keyof Sampling | 'reasoning.summary')

/**
 * Tells of fields for which the provider has no place. What changes nothing is no loss: `false`, a penalty of 0, a bias
 * of nothing, a summary as the model likes it.
 */
export function loseUnsupported(
  request: GenerationRequest,
  fields: readonly Field[],
  why: string,
  losses: Loss[],
): void {
  const wishes: { [Name in Field]?: unknown } = {
    ...request,
    ...request.sampling,
    'reasoning.summary': request.reasoning?.summary,
  }
  for (const field of fields) {
    const wish = wishes[field]
    const idle =
      wish === undefined ||
      wish === false ||
      (wish === 'auto' && field === 'reasoning.summary') ||
      (wish === 0 && field.endsWith('Penalty')) ||
      (isObject(wish) && Object.keys(wish).length === 0)
    if (!idle) losses.push({ field, what: 'left out', why })
  }
}
