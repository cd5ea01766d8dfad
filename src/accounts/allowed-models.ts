import { GatewayError } from '../error.ts'

/** True for the names of models, as clients request them, that may be used. */
export type AllowedModels = (model: string) => boolean

/** Throws permission_denied for a model that is not allowed. */
export function checkAllowed({ allows }: { allows: AllowedModels }, model: string): void {
  if (!allows(model))
    throw new GatewayError('permission_denied', `This key is not allowed to use the model ${model}.`, {
      param: 'model',
    })
}

export const anyModel: AllowedModels = () => true

/** Compiles patterns in which `*` matches any text, slashes too. A test takes time linear in the name. */
export function allowedModels(patterns: readonly string[]): AllowedModels {
  const allowed = patterns.map(compile)
  return (model) => allowed.some((allows) => allows(model))
}

function compile(pattern: string): AllowedModels {
  const [prefix = '', ...pieces] = pattern.split('*')
  const suffix = pieces.pop()
  if (suffix === undefined) return (model) => model === pattern
  return (model) => {
    if (!model.startsWith(prefix) || !model.endsWith(suffix)) return false
    let position = prefix.length
    for (const piece of pieces) {
      const found = model.indexOf(piece, position)
      if (found < 0) return false
      position = found + piece.length
    }
    return position <= model.length - suffix.length
  }
}
