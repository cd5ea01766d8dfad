import type { GenerationResponse, FinishReason } from '../generation/event.ts'
import type { Citation } from '../generation/request.ts'
import type { Usage } from '../generation/usage.ts'
import type { LossCode } from './loss-codes.ts'
import type { ResponseContext } from './protocol.ts'
import type { Loss } from './translation.ts'

/** Reports a loss of the response. Without a translation there is no report. */
export function lose({ losses }: ResponseContext, code: LossCode, field: string, reason?: string): void {
  losses?.add(code, `response.${field}`, reason)
}

export const loseNativeContent = (context: ResponseContext, kind: string): void =>
  lose(context, 'response_content_native', kind)

/** Reports a call that is left out, because its arguments were cut. */
export const loseCutCall = (context: ResponseContext): void =>
  lose(
    context,
    'response_content_dropped',
    'tool_calls.arguments',
    'the arguments are not a complete JSON object: the call is left out',
  )

/** Reports the step of a tool that the provider ran, written in the client's protocol. */
export const adjustSteps = (context: ResponseContext, kind: string): void =>
  lose(
    context,
    'response_field_adjusted',
    kind,
    "sent in the client's protocol, without the provider's own ids and files",
  )

/** Reports what a citation loses where it is written as a URL and a range. */
export function loseCitationDetails(context: ResponseContext, { citedText, start }: Citation): void {
  if (start === undefined)
    lose(context, 'response_citation_adjusted', 'citations', 'the provider gives no position in the text')
  if (citedText !== undefined)
    lose(context, 'response_citation_adjusted', 'citations', 'there is no field for the cited text')
}

const RAW_LENGTH = 100

/** Reports a finish reason that the protocol can only approximate. `inexact`: those without an exact equivalent. */
export function loseFinishReason(
  context: ResponseContext,
  { reason, raw }: GenerationResponse['finish'],
  inexact: readonly FinishReason[],
): void {
  if (inexact.includes(reason))
    lose(
      context,
      'response_finish_adjusted',
      'finish_reason',
      `the provider's finish reason is '${raw.slice(0, RAW_LENGTH)}'`,
    )
}

export function loseStopDetails(context: ResponseContext, details: unknown): void {
  if (details !== undefined) lose(context, 'response_field_dropped', 'stop_details')
}

export function loseStopSequence(
  context: ResponseContext,
  { stopSequence, details }: GenerationResponse['finish'],
): void {
  loseStopDetails(context, details)
  if (stopSequence !== undefined) lose(context, 'response_field_dropped', 'stop_sequence')
}

/** Reports cache writes of several lifetimes that are counted in one sum. */
export function loseLifetimes(context: ResponseContext, usage: Usage): void {
  if (usage.cacheWrite1hTokens > 0)
    lose(context, 'response_usage_adjusted', 'usage', 'tokens written to caches of all lifetimes are one sum')
}

/** The reported service tier by the name that the client's protocol has for it; one without a name is lost. */
export function tierOf(
  context: ResponseContext,
  tier: string | undefined,
  nameOf: (tier: string) => string | undefined,
): string | undefined {
  if (tier === undefined || tier === '') return undefined
  const name = nameOf(tier)
  // `auto` does not say which tier it was.
  if (name === undefined && tier !== 'auto') lose(context, 'response_field_dropped', 'service_tier')
  return name
}

/** The losses for the last frame of a translated response, if the client requested them in the body. */
export const lossReport = ({ report, losses }: ResponseContext): { sluice?: { translation: readonly Loss[] } } =>
  report === true && losses !== undefined ? { sluice: { translation: losses.losses } } : {}

/** Clients and proxies refuse a response whose headers exceed 8 to 16 KiB, and paths contain names of the client. */
const HEADER_LENGTH = 4_000
const PATH_LENGTH = 200

/** The losses as compact JSON in ASCII for a header, as many as fit. */
export const lossesHeader = (losses: readonly Loss[]): string => {
  let text = ''
  for (const loss of losses) {
    const one = JSON.stringify({ ...loss, path: loss.path.slice(0, PATH_LENGTH) }).replace(
      /[^\x20-\x7e]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    if (text.length + one.length < HEADER_LENGTH) text += text === '' ? one : `,${one}`
  }
  return `[${text}]`
}
