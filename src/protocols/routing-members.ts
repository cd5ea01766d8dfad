import type { Fields } from './fields.ts'
import type { Protocol, RawRequest } from './protocol.ts'
import type { Quirks } from './quirks.ts'

/**
 * Members of a body about the choice of its endpoint, which OpenRouter introduced. They are for Sluice; a provider gets
 * them only if it reads them itself.
 */
const NAMES = ['provider', 'models', 'route', 'session_id'] as const
const KNOWN: ReadonlySet<string> = new Set(NAMES)

export type RoutingMembers = { readonly [Name in (typeof NAMES)[number]]?: unknown }

/**
 * Those of a request, of which no other part is parsed where it was scanned; undefined without any, and for a protocol
 * that has none.
 */
export function routingMembers(
  rawRequest: RawRequest,
  { routed }: Pick<Protocol['serve'], 'routed'>,
): RoutingMembers | undefined {
  if (routed !== true) return undefined
  const { scanned } = rawRequest
  if (scanned === undefined) return inBody(rawRequest.body)
  let found: Record<string, unknown> | undefined
  for (const { name, start, end } of scanned.scan.members)
    if (KNOWN.has(name)) (found ??= {})[name] = JSON.parse(scanned.bytes.toString('utf8', start, end))
  return found
}

function inBody(body: Record<string, unknown>): RoutingMembers | undefined {
  const present = NAMES.filter((name) => Object.hasOwn(body, name))
  return present.length === 0 ? undefined : Object.fromEntries(present.map((name) => [name, body[name]]))
}

/** Has a reader leave them out of what it does not know. */
export function takeRoutingMembers(body: Fields): void {
  for (const name of NAMES) body.take(name)
}

/** Adds their removal to the changes of a body that is passed on. */
export function removeRoutingMembers(
  changes: Record<string, string | undefined>,
  body: Record<string, unknown>,
  { routesItself }: Quirks,
): void {
  if (routesItself === true) return
  for (const name of NAMES) if (Object.hasOwn(body, name)) changes[name] = undefined
}
