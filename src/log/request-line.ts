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

/** One line of JSON. The pieces are added up in place: at thousands of lines a second, lists of them are garbage. */
export function jsonOf(entry: RequestEntry): string {
  const { level, requestId, route, status, key, model, error, ms, generation } = entry
  let line =
    `{"time":"${isoOf(Date.now())}","level":"${level}","message":"request","request":"${requestId}"` +
    `,"route":${jsonFields.of(route)},"status":${status},"ms":${ms}`
  if (key !== undefined) line += `,"key":${jsonFields.of(key)}`
  if (model !== undefined) line += `,"model":${jsonFields.of(model)}`
  if (error !== undefined) line += `,"error":"${error}"`
  if (generation === undefined) return `${line}}\n`
  const { id, protocol, isStream, outcome, served, attempts, losses, cost, firstMs } = generation
  const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = generation
  line +=
    `,"generation":"${id}","protocol":"${protocol}","stream":${isStream},"outcome":"${outcome}"` +
    `,"inputTokens":${inputTokens},"cachedTokens":${cachedTokens}` +
    `,"outputTokens":${outputTokens},"reasoningTokens":${reasoningTokens},"cost":${cost}`
  if (served !== undefined)
    line += `,"provider":${jsonFields.of(served.provider)},"providerModel":${jsonFields.of(served.model)}`
  if (firstMs !== undefined) line += `,"firstMs":${firstMs}`
  if (hasFailed(attempts)) line += `,"attempts":${JSON.stringify(attempts, ['provider', 'error', 'milliseconds'])}`
  if (losses.length > 0) line += `,"losses":${JSON.stringify(losses)}`
  return `${line}}\n`
}

const NONE = '-'

/** The same for people, in columns. */
export function textOf({ requestId, route, status, key, model, error, ms, generation }: RequestEntry): string {
  let line = `${timeOf(Date.now())} ${status} ${routeColumn.of(route)} ${modelColumn.of(model ?? NONE)} `
  if (generation === undefined) line += NO_GENERATION
  else {
    const { served, inputTokens, outputTokens, reasoningTokens, cost, firstMs } = generation
    line +=
      `${providerColumn.of(served?.provider ?? NONE)} ${`${inputTokens} in`.padStart(9)} ` +
      `${`${outputTokens + reasoningTokens} out`.padStart(9)} ${`$${cost}`.padStart(12)} ` +
      (firstMs === undefined ? NONE : `${firstMs} ms`).padStart(8)
  }
  line += ` ${`${ms} ms`.padStart(9)}`
  if (error !== undefined) line += ` ${error}`
  if (generation !== undefined) line += notesOf(generation)
  if (key !== undefined) line += ` key ${keyWords.of(key)}`
  return `${line} ${generation?.id ?? requestId}\n`
}

/** Whatever is not as usual. */
function notesOf({ outcome, attempts, losses }: GenerationEntry): string {
  let notes = outcome === 'completed' ? '' : ` ${outcome}`
  if (hasFailed(attempts))
    notes += ` tried ${attempts.map((one) => `${word(one.provider)}: ${one.error ?? 'served'}`).join(', ')}`
  return losses.length === 0 ? notes : `${notes} losses ${losses.join(',')}`
}

const REMEMBERED_MAX = 1000

/** Names as a line shows them. The same few come in almost all lines; clients could send any number of others. */
class Fields {
  readonly #known = new Map<string, string>()
  readonly #write: (field: string) => string

  constructor(write: (field: string) => string) {
    this.#write = write
  }

  of(field: string): string {
    let written = this.#known.get(field)
    if (written === undefined) {
      if (this.#known.size >= REMEMBERED_MAX) this.#known.clear()
      this.#known.set(field, (written = this.#write(field)))
    }
    return written
  }
}

const jsonFields = new Fields(quotedField)
const routeColumn = new Fields((route) => plain(route).padEnd(20))
const modelColumn = new Fields((model) => word(model).padEnd(28))
const providerColumn = new Fields((provider) => word(provider).padEnd(12))
const keyWords = new Fields(word)
const NO_GENERATION = [NONE.padEnd(12), ...[9, 9, 12, 8].map((width) => NONE.padStart(width))].join(' ')

const SECOND_MS = 1000

/** An instant as text up to its seconds, which are the same for many lines. */
class Seconds {
  #at = -1
  #text = ''
  readonly #write: (now: Date) => string

  constructor(write: (now: Date) => string) {
    this.#write = write
  }

  /** With milliseconds. */
  of(now: number): string {
    const ms = now % SECOND_MS
    if (now - ms !== this.#at) {
      this.#at = now - ms
      this.#text = this.#write(new Date(this.#at))
    }
    return `${this.#text}.${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}`
  }
}

const two = (value: number): string => (value < 10 ? `0${value}` : String(value))

const isoSeconds = new Seconds((now) => now.toISOString().slice(0, 19))
const localSeconds = new Seconds((now) => `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`)

/** Date and time of day in UTC. */
const isoOf = (now: number): string => `${isoSeconds.of(now)}Z`

/** Time of day, where the server is. */
export const timeOf = (now: number): string => localSeconds.of(now)
