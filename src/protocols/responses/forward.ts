import { belongsTo, unseal } from '../../generation/signature.ts'
import { splice } from '../../generation/json-text.ts'
import type { Exchange, Target } from '../protocol.ts'
import { isObject } from '../fields.ts'
import { mayReason } from './call.ts'
import { arrayOf, readMark, type Json } from './shapes.ts'

/**
 * The client's own body for a provider that speaks this protocol. Sluice keeps the state itself, so that it is the same on every
 * provider and no tenant reads another's under the shared credential: earlier turns stand in `input` already, the provider stores
 * nothing (unless it has to, to work in the background), and its reasoning comes back sealed so that a later turn can replay it.
 */
export function forward({ wire }: Exchange, target: Target): string {
  const { body } = wire
  const changes: Record<string, string | undefined> = { model: JSON.stringify(target.model) }
  if (Object.hasOwn(body, 'previous_response_id')) changes.previous_response_id = undefined
  if (body.background !== true) changes.store = 'false'
  const include = withSeals(body, target)
  if (include !== undefined) changes.include = JSON.stringify(include)
  const input = withoutStrangers(body.input, target)
  if (input !== undefined) changes.input = JSON.stringify(input)
  return splice(wire.text, changes)
}

const SEALS = 'reasoning.encrypted_content'

function withSeals(body: Json, { abilities }: Target): unknown[] | undefined {
  const include = arrayOf(body.include)
  const reasoning = isObject(body.reasoning) ? body.reasoning : undefined
  if (body.store === false || include.includes(SEALS) || !mayReason(reasoning !== undefined, reasoning?.effort, abilities)) return undefined
  return [...include, SEALS]
}

/** Input without the reasoning that this provider would refuse; undefined where there is none such, so that the text stays as it is. */
function withoutStrangers(input: unknown, target: Target): unknown[] | undefined {
  if (!Array.isArray(input)) return undefined
  let changed = false
  const kept = input.flatMap((item: unknown) => {
    const own = replayable(item, target)
    if (own !== item) changed = true
    return own === undefined ? [] : [own]
  })
  return changed ? kept : undefined
}

/**
 * A reasoning item as its maker takes it back: the seal of another model is refused, and so is an item that is known by its id alone,
 * because nothing was stored. Raw thoughts need no seal where a provider shows them.
 */
function replayable(item: unknown, target: Target): unknown {
  if (!isObject(item) || item.type !== 'reasoning') return item
  const sealed = item.encrypted_content
  if (typeof sealed !== 'string') return arrayOf(item.content).length > 0 ? item : undefined
  const signature = unseal(sealed)
  if (signature.maker === undefined) return readMark(signature.data) === undefined ? item : undefined
  return belongsTo(signature, target, true) && readMark(signature.data) === undefined ? { ...item, encrypted_content: signature.data } : undefined
}
