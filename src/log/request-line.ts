import type { LogLevel } from '../config/terms.ts'
import { plain, quotedField, word } from './plain.ts'

/** A request that has ended. Nothing of its body or its answer is here, and no text that either could fill. */
export type RequestEntry = {
  level: LogLevel
  requestId: string
  /** The name of its route; method and path where it had none. */
  route: string
  status: number
  /** Name or id of the key; undefined without one. */
  key: string | undefined
  /** As the client named it. */
  model: string | undefined
  /** The code of the error that the client got. */
  error: string | undefined
  /** Milliseconds from its arrival to its end. */
  ms: number
  generation: GenerationEntry | undefined
}

/** `cost`: USD. `firstMs`: milliseconds to the first event of the provider's response, if there was one. */
export type GenerationEntry = {
  id: string
  protocol: string
  isStream: boolean
  outcome: string
  /** The endpoint that served it: provider, and its name of the model. */
  served: { provider: string; model: string } | undefined
  /** All attempts; an error is a code. */
  attempts: readonly { provider: string; error?: string; milliseconds: number }[]
  inputTokens: number
  cachedTokens: number
  outputTokens: number
  reasoningTokens: number
  cost: string
  firstMs: number | undefined
  /** Codes, each once. */
  losses: readonly string[]
}

const hasFailed = (attempts: GenerationEntry['attempts']): boolean =>
  attempts.length > 1 || attempts[0]?.error !== undefined

/** One line of JSON. */
export function jsonOf(entry: RequestEntry): string {
  const { level, requestId, route, status, key, model, error, ms, generation } = entry
  let line =
    `{"time":"${new Date().toISOString()}","level":"${level}","message":"request","request":"${requestId}"` +
    `,"route":${quotedField(route)},"status":${status},"ms":${ms}`
  if (key !== undefined) line += `,"key":${quotedField(key)}`
  if (model !== undefined) line += `,"model":${quotedField(model)}`
  if (error !== undefined) line += `,"error":"${error}"`
  return generation === undefined ? `${line}}\n` : `${line},${membersOf(generation)}}\n`
}

function membersOf(generation: GenerationEntry): string {
  const { id, protocol, isStream, outcome, served, attempts, losses, cost, firstMs } = generation
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = generation
  let members =
    `"generation":"${id}","protocol":"${protocol}","stream":${isStream},"outcome":"${outcome}"` +
    `,"inputTokens":${inputTokens},"cachedTokens":${cachedTokens}` +
    `,"outputTokens":${outputTokens},"reasoningTokens":${reasoningTokens},"cost":${cost}`
  if (served !== undefined)
    members += `,"provider":${quotedField(served.provider)},"providerModel":${quotedField(served.model)}`
  if (firstMs !== undefined) members += `,"firstMs":${firstMs}`
  if (hasFailed(attempts)) members += `,"attempts":${JSON.stringify(attempts, ['provider', 'error', 'milliseconds'])}`
  if (losses.length > 0) members += `,"losses":${JSON.stringify(losses)}`
  return members
}

const NONE = '-'

/** The same for people, in columns. */
export function textOf({ requestId, route, status, key, model, error, ms, generation }: RequestEntry): string {
  const cells = [
    timeOf(new Date()),
    String(status),
    plain(route).padEnd(20),
    word(model ?? NONE).padEnd(28),
    word(generation?.served?.provider ?? NONE).padEnd(12),
    (generation === undefined ? NONE : `${generation.inputTokens} in`).padStart(9),
    (generation === undefined ? NONE : `${generation.outputTokens + generation.reasoningTokens} out`).padStart(9),
    (generation === undefined ? NONE : `$${generation.cost}`).padStart(12),
    (generation?.firstMs === undefined ? NONE : `${generation.firstMs} ms`).padStart(8),
    `${ms} ms`.padStart(9),
    ...notesOf(generation, error),
    ...(key === undefined ? [] : [`key ${word(key)}`]),
    generation?.id ?? requestId,
  ]
  return `${cells.join(' ')}\n`
}

/** Whatever is not as usual. */
function notesOf(generation: GenerationEntry | undefined, error: string | undefined): string[] {
  const notes = error === undefined ? [] : [error]
  if (generation === undefined) return notes
  const { outcome, attempts, losses } = generation
  if (outcome !== 'completed') notes.push(outcome)
  if (hasFailed(attempts))
    notes.push(`tried ${attempts.map((one) => `${word(one.provider)}: ${one.error ?? 'served'}`).join(', ')}`)
  if (losses.length > 0) notes.push(`losses ${losses.join(',')}`)
  return notes
}

const two = (value: number): string => (value < 10 ? `0${value}` : String(value))

/** Time of day, where the server is. */
export const timeOf = (now: Date): string =>
  `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}.` +
  String(now.getMilliseconds()).padStart(3, '0')
