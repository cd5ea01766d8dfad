import type { GatewayError } from '../../error.ts'
import type { FinishReason } from '../../generation/event.ts'
import type { Usage } from '../../generation/usage.ts'
import type { ImageSize } from './image.ts'

/** One piece of content of a response, in the order of the prompt's directives. */
export type Step =
  | { kind: 'reply'; text: string }
  | { kind: 'length'; words: number }
  | { kind: 'think'; text?: string; signing: 'signed' | 'unsigned' | 'redacted' }
  | { kind: 'call'; name: string; input?: string }
  | { kind: 'refuse'; text: string }
  | { kind: 'json' }
  | { kind: 'cite'; url: string; title?: string }
  /** Absent members are taken from the request. */
  | { kind: 'image'; size?: ImageSize; prompt?: string }
  | { kind: 'echo'; subject: 'summary' | 'body' | 'headers' }

/** A failure in the middle of a response, after so many deltas. `error`: only of kind error. */
export type StreamFault = { kind: 'error' | 'cut' | 'end' | 'hang'; afterDeltas: number; error?: GatewayError }

/** One response. A tool loop has several: the first before any tool results, the second after the first results, ... */
export type ScriptedResponse = {
  steps: Step[]
  empty?: boolean
  finish?: FinishReason
  /** True means the first stop sequence of the request. */
  stopSequence?: string | true
  error?: GatewayError
  page?: { status: number; text: string }
  fault?: StreamFault
  delayMs?: number
  hang?: boolean
  usage?: Partial<Usage>
  /** JSON where a stream was requested, and the reverse. */
  swapFormat?: boolean
}

/** All directives of a prompt. The members besides `responses` apply to every response. */
export type Script = { responses: ScriptedResponse[]; paceMs?: number; wordsPerDelta?: number; noUsage?: boolean }
