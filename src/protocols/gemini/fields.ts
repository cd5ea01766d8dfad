import { GatewayError } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { type Extras, Fields, snakeCase } from '../fields.ts'

/**
 * The fields of an object, each under either name, since Google's servers accept `generationConfig` and
 * `generation_config` alike. Paths have the name that the client wrote.
 */
export class GoogleFields extends Fields {
  protected override made(value: unknown, path: string, extras: Extras | undefined): this {
    return new GoogleFields(value, path, extras) as this
  }

  override take(name: string): unknown {
    return super.take(this.#spelling(name, knownSnakeCase(name)))
  }

  override at(name: string): string {
    return super.at(this.#spelling(name))
  }

  override has(name: string): boolean {
    return super.has(this.#spelling(name, knownSnakeCase(name)))
  }

  #spelling(name: string, snake = snakeCase(name)): string {
    if (Object.hasOwn(this.value, name)) {
      // The provider might read the other one.
      if (snake !== name && Object.hasOwn(this.value, snake))
        throw new GatewayError(
          'unsupported_parameter',
          `${super.at(snake)}: must not be combined with ${name}, its other spelling`,
          { param: super.at(snake) },
        )
      return name
    }
    return Object.hasOwn(this.value, snake) ? snake : name
  }
}

/** Names in snake_case that readers ask for: few, and all of them in the code. */
const SNAKE_CASE = new Map<string, string>()

function knownSnakeCase(name: string): string {
  const known = SNAKE_CASE.get(name)
  if (known !== undefined) return known
  const snake = snakeCase(name)
  SNAKE_CASE.set(name, snake)
  return snake
}

/** A member of a value that is not validated, under either name. */
export const either = (value: unknown, name: string): unknown => {
  if (!isObject(value)) return undefined
  if (Object.hasOwn(value, name)) return value[name]
  const snake = knownSnakeCase(name)
  return Object.hasOwn(value, snake) ? value[snake] : undefined
}
