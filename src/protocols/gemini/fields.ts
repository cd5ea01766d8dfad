import { invalid } from '../../error.ts'
import { Fields, isObject, snakeOf } from '../fields.ts'

/**
 * Google's servers read `generationConfig` and `generation_config` alike: a member is found under either name, and
 * errors say the one that was written.
 */
export class GoogleFields extends Fields {
  override take(name: string): unknown {
    return super.take(this.#spelling(name))
  }

  override at(name: string): string {
    return super.at(this.#spelling(name))
  }

  override has(name: string): boolean {
    return super.has(this.#spelling(name))
  }

  override object(name: string): GoogleFields | undefined {
    const value = this.take(name)
    return value === undefined ? undefined : new GoogleFields(value, this.at(name))
  }

  override objects(name: string, limits: { min?: number; max?: number; of?: string } = {}): GoogleFields[] | undefined {
    return this.array(name, limits)?.map((element, index) => new GoogleFields(element, `${this.at(name)}[${index}]`))
  }

  #spelling(name: string): string {
    const snake = snakeOf(name)
    if (Object.hasOwn(this.value, name)) {
      // The provider might read the other one.
      if (snake !== name && Object.hasOwn(this.value, snake))
        throw invalid(super.at(snake), `must not stand together with ${name}, its other spelling`)
      return name
    }
    return Object.hasOwn(this.value, snake) ? snake : name
  }
}

/** A member of a value that is not validated, under either spelling. */
export const either = (value: unknown, name: string): unknown => {
  if (!isObject(value)) return undefined
  if (Object.hasOwn(value, name)) return value[name]
  const snake = snakeOf(name)
  return Object.hasOwn(value, snake) ? value[snake] : undefined
}
