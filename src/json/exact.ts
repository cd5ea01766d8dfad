import { mayRespell, parseExact } from './text.ts'
import { isObject } from '../protocols/fields.ts'

/**
 * JSON.parse, but values of members with this name stringify to the numbers as they were spelled: a call's arguments
 * are only passed on, and
 * what a double cannot hold would arrive as another number. Throws a SyntaxError like JSON.parse.
 */
export function parseWithExact(text: string, name: string): unknown {
  return text.includes(`"${name}"`) && mayRespell(text)
    ? grafted(parseExact(text), JSON.parse(text), name)
    : JSON.parse(text)
}

function grafted(exact: unknown, plain: unknown, name: string): unknown {
  if (Array.isArray(plain)) return plain.map((element, index) => grafted((exact as unknown[])[index], element, name))
  if (!isObject(plain) || !isObject(exact)) return plain
  for (const member of Object.keys(plain))
    plain[member] = member === name ? exact[member] : grafted(exact[member], plain[member], name)
  return plain
}
