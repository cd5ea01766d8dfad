import type { Answer, FinishReason } from '../generation/event.ts'
import type { Citation } from '../generation/request.ts'
import type { Usage } from '../generation/usage.ts'
import type { TranslationContext, ReportedLoss } from './protocol.ts'

/** A provider that thinks up kinds of content without end must not fill the memory with them. */
const LOSSES_MAX = 1_000

/** Notes what an answer holds and its client's protocol cannot say. The same is told once, however often it comes. */
export function lose(
  { losses }: TranslationContext,
  field: `answer.${string}`,
  what: ReportedLoss['what'],
  why: string,
): void {
  if (
    losses === undefined ||
    losses.length >= LOSSES_MAX ||
    losses.some((known) => known.field === field && known.why === why)
  )
    return
  losses.push({ field, what, why })
}

export const loseNative = (context: TranslationContext, kind: string): void =>
  lose(context, `answer.${kind}`, 'left out', "only the provider's own protocol has it")

/** Of a citation that is told as an address and a range. */
export function loseOfCitation(context: TranslationContext, { citedText, start }: Citation): void {
  if (start === undefined) lose(context, 'answer.citations', 'approximated', 'the provider names no place in the text')
  if (citedText !== undefined)
    lose(context, 'answer.citations', 'approximated', 'there is no place for the words of the source')
}

const RAW_LENGTH = 100

/**
 * Of an ending. `inexact`: reasons for which the protocol has a word that means less, and no place for the provider's
 * own.
 */
export function loseOfFinish(
  context: TranslationContext,
  { reason, raw }: Answer['finish'],
  inexact: readonly FinishReason[],
): void {
  if (inexact.includes(reason))
    lose(context, 'answer.finish_reason', 'approximated', `the provider's own word is '${raw.slice(0, RAW_LENGTH)}'`)
}

export function loseOfDetails(context: TranslationContext, details: unknown): void {
  if (details !== undefined)
    lose(context, 'answer.stop_details', 'left out', "only the provider's own protocol says more of why it ended")
}

export function loseOfStop(context: TranslationContext, { stopSequence, details }: Answer['finish']): void {
  loseOfDetails(context, details)
  if (stopSequence !== undefined)
    lose(context, 'answer.stop_sequence', 'left out', 'the protocol does not say which one ended the answer')
}

/** Of usage that is told with one sum for all that was written to caches. */
export function loseLifetimes(context: TranslationContext, usage: Usage): void {
  if (usage.cacheWrite1hTokens > 0)
    lose(context, 'answer.usage', 'approximated', 'tokens written to caches are told in one sum for all lifetimes')
}

/** What the last piece of a translated answer says beside its protocol's own members, to a client that asked for it. */
export const reportOf = ({
  report,
  losses,
}: TranslationContext): { sluice?: { translation: readonly ReportedLoss[] } } =>
  report === true && losses !== undefined ? { sluice: { translation: losses } } : {}

/**
 * Clients and proxies refuse an answer whose headers are longer than 8 to 16 KiB, and a client's own field names stand
 * in this text.
 */
const TOLD_LENGTH = 4_000
const FIELD_LENGTH = 200

/** Compact JSON in ASCII, of as many losses as there is room for. */
export const lossesText = (losses: readonly ReportedLoss[]): string => {
  let told = ''
  for (const loss of losses) {
    const one = JSON.stringify({ ...loss, field: loss.field.slice(0, FIELD_LENGTH) }).replace(
      /[^\x20-\x7e]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    if (told.length + one.length < TOLD_LENGTH) told += told === '' ? one : `,${one}`
  }
  return `[${told}]`
}
