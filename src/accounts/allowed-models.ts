import { GatewayError } from '../error.ts'

/** Whether a model may be used, by the name that the client asks for. */
export type AllowedModels = (model: string) => boolean

/** Throws permission_denied for a model that is not allowed. */
export function checkAllowed({ allows }: { allows: AllowedModels }, model: string): void {
  if (!allows(model))
    throw new GatewayError('permission_denied', `This key may not use the model ${model}.`, { param: 'model' })
}

export const anyModel: AllowedModels = () => true

/**
 * Patterns in which `*` stands for any text, slashes too, compiled once. Looking takes time linear in the name,
 * whatever the pattern.
 */
export function allowedModels(patterns: readonly string[]): AllowedModels {
  const allowed = patterns.map(allowing)
  return (model) => allowed.some((allows) => allows(model))
}

function allowing(pattern: string): AllowedModels {
  const [beginning = '', ...pieces] = pattern.split('*')
  const end = pieces.pop()
  if (end === undefined) return (model) => model === pattern
  return (model) => {
    if (!model.startsWith(beginning) || !model.endsWith(end)) return false
    let at = beginning.length
    for (const piece of pieces) {
      const found = model.indexOf(piece, at)
      if (found < 0) return false
      at = found + piece.length
    }
    return at <= model.length - end.length
  }
}
