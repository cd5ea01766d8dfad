import { EFFORTS, type Effort, type Reasoning } from '../generation/request.ts'
import type { Capabilities } from './protocol.ts'
import type { Translation } from './translation.ts'

/**
 * The model's effort nearest to the requested one, the lower of two; undefined if it has none. A request for reasoning
 * never becomes `none`.
 */
export function nearestEffort(
  requested: Effort,
  { efforts }: Capabilities,
  setting: 'reasoning.effort' | 'reasoning.budgetTokens',
  translation: Translation,
): Effort | undefined {
  if (efforts === undefined || efforts.includes(requested)) return requested
  const distance = (effort: Effort): number => Math.abs(EFFORTS.indexOf(effort) - EFFORTS.indexOf(requested))
  const [nearest] = efforts
    .filter((effort) => effort !== 'none')
    .toSorted((a, b) => distance(a) - distance(b) || EFFORTS.indexOf(a) - EFFORTS.indexOf(b))
  // Clients write the effort none in other members than an effort.
  const isOff = requested === 'none' && setting === 'reasoning.effort'
  const path = translation.setting(isOff ? 'reasoning.off' : setting)
  if (nearest === undefined)
    translation.lose('reasoning_not_possible', path, 'the model decides itself how much it reasons')
  else
    translation.lose(
      'effort_adjusted',
      path,
      requested === 'none'
        ? `the model always reasons: sent as '${nearest}'`
        : `the model accepts ${efforts.map((effort) => `'${effort}'`).join(', ')}: sent as '${nearest}'`,
    )
  return nearest
}

/** Reports the effort of a request that is sent with its budget. */
export const loseEffort = (translation: Translation): void =>
  translation.lose(
    'unsupported_combination',
    translation.setting('reasoning.effort'),
    'the provider takes a budget instead of an effort',
  )

/** Reports the budget or the effort beside what switches reasoning off: the effort none, or a budget of 0. */
export function loseBesideOff({ effort, budgetTokens = 0 }: Reasoning, translation: Translation): void {
  const reason = 'the request switches reasoning off'
  if (effort !== undefined && effort !== 'none')
    translation.lose('unsupported_combination', translation.setting('reasoning.effort'), reason)
  if (budgetTokens !== 0)
    translation.lose('unsupported_combination', translation.setting('reasoning.budgetTokens'), reason)
}

/**
 * Refuses a request for nothing but audio, of which the response would have none: text in its place would mislead.
 * `hasAudio`: the protocol can ask for audio.
 */
export function refuseAudioAlone(hasAudio: boolean, translation: Translation): void {
  const { request, target } = translation
  const isAlone = request.outputModalities?.length === 1 && request.outputModalities[0] === 'audio'
  if (isAlone && !(hasAudio && target.capabilities.output?.includes('audio') !== false))
    throw translation.refusal(translation.setting('outputModalities'), 'the model responds with text, not audio')
}

/** True if the model accepts sampling parameters. `reasons`: reasoning is not switched off in this request. */
export const acceptsSampling = ({ sampling }: Capabilities, reasons: boolean): boolean =>
  sampling !== false && !(sampling === 'idle' && reasons)

/** The output limit, reduced to the model's own, since providers refuse a higher one. */
export function limitOutputTokens(
  limit: number | undefined,
  { maxOutputTokens: max = Infinity }: Capabilities,
  translation: Translation,
): number | undefined {
  if (limit === undefined || limit <= max) return limit
  translation.lose(
    'value_adjusted',
    translation.setting('maxOutputTokens'),
    `the model generates at most ${max} tokens`,
  )
  return max
}
