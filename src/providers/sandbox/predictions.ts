import { randomBytes } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { GatewayError, invalid } from '../../error.ts'
import { Fields, present } from '../../protocols/fields.ts'
import { milliseconds } from './directive-arguments.ts'
import { isValidSize, SIDE_LIMITS, solidPng, type ImageSize } from './image.ts'
import { readDirectives } from './read-script.ts'
import { fromToken, toToken } from './signatures.ts'

/**
 * Predictions of Replicate's API. None is stored: the id contains the creation time and the input, so that any process
 * can compute the state at any time. Only cancellations are remembered, by the process that received them.
 */

/** The body of a create. `input`: only the members of INPUT_FIELDS. */
type CreateRequest = { model: string; version: string; input: Record<string, unknown> }

/** The content of an id. `createdAt`: Unix milliseconds. */
type EncodedPrediction = CreateRequest & { createdAt: number }

/** The behaviour that the input asks for. Times in milliseconds. */
type Simulation = {
  prompt: string
  delay: number
  duration: number
  logLines: number
  hangs: boolean
  failure?: string
  output?: unknown
  imageSize?: ImageSize
}

const INPUT_FIELDS = ['prompt', 'delay', 'duration', 'logs', 'fail', 'hang', 'output', 'image'] as const
/** Longer prompts are cut, because the id contains them. */
const MAX_PROMPT_LENGTH = 256
/** Ids are path segments. */
const MAX_ID_LENGTH = 4000
const DEFAULT_DURATION = 500
const DEFAULT_LOG_LINES = 4

/** `model`: from the path. Throws a 400 for an invalid body and model_not_found. */
export function readCreate(json: Record<string, unknown>, model: string | undefined): CreateRequest {
  const body = new Fields(json)
  const version = body.string('version')
  const name = model ?? body.string('model') ?? version?.split(':', 1)[0]
  if (name === undefined) throw invalid('version', 'is required unless the path names a model')
  if (name.includes('missing'))
    throw new GatewayError('model_not_found', `The model '${name}' does not exist.`, { param: 'model' })
  const { value: given } = body.require('input', body.object('input'), 'an object')
  const input = Object.fromEntries(
    INPUT_FIELDS.flatMap((field) =>
      given[field] === undefined || given[field] === null ? [] : [[field, given[field]]],
    ),
  )
  readSimulation(input)
  return { model: name, version: version ?? 'sandbox', input }
}

/** A new id. Throws a 400 if the input does not fit in one. */
export function encodeId({ model, version, input }: CreateRequest, createdAt: number): string {
  const { prompt } = input
  const kept = typeof prompt === 'string' ? { ...input, prompt: prompt.slice(0, MAX_PROMPT_LENGTH) } : input
  const id = toToken(JSON.stringify([createdAt, randomBytes(4).toString('hex'), model, version, kept]), 'prediction')
  if (id.length > MAX_ID_LENGTH)
    throw invalid(
      'input',
      `is too long: a sandbox prediction's id contains its input, and must fit in ${MAX_ID_LENGTH} characters`,
    )
  return id
}

function decodeId(id: string): EncodedPrediction {
  const text = fromToken(id, 'prediction')
  if (text === undefined) throw new GatewayError('not_found', 'There is no such prediction.')
  const [createdAt, , model, version, input] = JSON.parse(text) as [
    number,
    string,
    string,
    string,
    Record<string, unknown>,
  ]
  return { createdAt, model, version, input }
}

function readSimulation(given: Record<string, unknown>): Simulation {
  const input = new Fields(given, 'input')
  const fail = input.take('fail')
  if (fail !== undefined && typeof fail !== 'boolean' && typeof fail !== 'string')
    throw invalid('input.fail', 'must be true or an error message')
  const failure = fail === true ? 'The sandbox was asked to fail.' : fail === false ? undefined : fail
  return {
    prompt: readDirectives(input.string('prompt') ?? '').rest,
    delay: readTime(input, 'delay') ?? 0,
    duration: readTime(input, 'duration') ?? DEFAULT_DURATION,
    logLines: input.integer('logs', { min: 0, max: 1000 }) ?? DEFAULT_LOG_LINES,
    hangs: input.boolean('hang') ?? false,
    ...present('failure', failure),
    ...present('output', input.take('output')),
    ...present('imageSize', readImageSize(input)),
  }
}

/** A number of seconds, or a text with its unit, in milliseconds. */
function readTime(input: Fields, name: string): number | undefined {
  const value = input.take(name)
  if (value === undefined) return undefined
  const text = typeof value === 'number' ? `${value}s` : typeof value === 'string' && value.endsWith('s') ? value : ''
  const time = milliseconds(text)
  if (time === undefined)
    throw invalid(input.at(name), "must be a number of seconds or a text like '2s' or '500ms', at most ten minutes")
  return time
}

function readImageSize(input: Fields): ImageSize | undefined {
  const text = input.string('image')
  if (text === undefined) return undefined
  const [, width = 0, height = 0] = /^(\d+)x(\d+)$/.exec(text)?.map(Number) ?? []
  if (!isValidSize({ width, height })) throw invalid('input.image', `must be a size like '640x480', ${SIDE_LIMITS}`)
  return { width, height }
}

/**
 * The prediction as JSON at the time `now`. `base`: the URL before `/predictions`. Times in Unix milliseconds. Throws
 * not_found for an id that the sandbox did not issue.
 */
export function predictionAt(id: string, base: string, now: number, canceledAt = Infinity): Record<string, unknown> {
  const { createdAt, model, version, input } = decodeId(id)
  const simulation = readSimulation(input)
  const startsAt = createdAt + simulation.delay
  const finishesAt = simulation.hangs ? Infinity : startsAt + simulation.duration
  const endsAt = Math.min(finishesAt, canceledAt)
  const isEnded = now >= endsAt
  const reachedAt = Math.min(now, endsAt)
  const finalStatus = canceledAt < finishesAt ? 'canceled' : simulation.failure === undefined ? 'succeeded' : 'failed'
  const status = isEnded ? finalStatus : now < startsAt ? 'starting' : 'processing'
  return {
    id,
    model,
    version,
    input,
    status,
    output: status === 'succeeded' ? outputOf(simulation) : null,
    error: status === 'failed' ? simulation.failure : null,
    logs: logsOf(simulation, reachedAt - startsAt, status === 'succeeded'),
    created_at: isoTime(createdAt),
    started_at: reachedAt < startsAt ? null : isoTime(startsAt),
    completed_at: isEnded ? isoTime(endsAt) : null,
    metrics: isEnded ? { predict_time: Math.max(0, endsAt - startsAt) / 1000 } : {},
    urls: { get: `${base}/predictions/${id}`, cancel: `${base}/predictions/${id}/cancel` },
  }
}

const isoTime = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** The given output, otherwise an image if a size is given, otherwise the prompt in words. */
function outputOf({ output, imageSize, prompt }: Simulation): unknown {
  if (output !== undefined) return output
  if (imageSize === undefined) return prompt.match(/\S+\s*/g) ?? ['You ', 'said ', 'nothing.']
  return [`data:image/png;base64,${solidPng({ ...imageSize, prompt, index: 0 }).toString('base64')}`]
}

/** Progress as `tqdm` writes it, one line per equal share of the duration. Only a success has the last line. */
function logsOf({ logLines, duration }: Simulation, elapsed: number, succeeded: boolean): string {
  const reached = duration === 0 ? logLines : Math.floor((Math.max(0, elapsed) / duration) * logLines)
  const written = Math.max(0, Math.min(reached, succeeded ? logLines : logLines - 1))
  return Array.from({ length: written }, (_, i) => progressLine(i + 1, logLines)).join('')
}

function progressLine(step: number, steps: number): string {
  const percent = String(Math.floor((step / steps) * 100)).padStart(3)
  const bar = '#'.repeat(Math.floor((step / steps) * 10)).padEnd(10)
  return `${percent}%|${bar}| ${step}/${steps}\n`
}

/** An error in Replicate's shape, where a 400 is a 422. */
export function writePredictionError(error: GatewayError): { status: number; body: object } {
  const status = error.status === 400 ? 422 : error.status
  const fields =
    error.param === undefined ? {} : { invalid_fields: [{ field: error.param, description: error.message }] }
  return {
    status,
    body: {
      title: status === 422 ? 'Input validation failed' : (STATUS_CODES[status] ?? 'Error'),
      detail: error.message,
      status,
      ...(status === 422 ? fields : {}),
    },
  }
}
