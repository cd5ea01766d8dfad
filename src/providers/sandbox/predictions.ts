import { randomBytes } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import { GatewayError, invalid } from '../../error.ts'
import { Fields, present } from '../../protocols/fields.ts'
import { milliseconds } from './directives.ts'
import { drawPicture, isDrawable, SIDE_LIMITS, type Size } from './picture.ts'
import { readDirectives } from './script.ts'
import { fromToken, toToken } from './seals.ts'

/**
 * Predictions as Replicate's API has them. Nothing of one is kept: its id holds when it was created and what it is to
 * do, so that any process
 * can tell at any time how far it is. Only what was cancelled is remembered, in this process.
 */

/** What is asked for. `input`: of what was given, what steers. */
type Asked = { model: string; version: string; input: Record<string, unknown> }

/** What an id holds. `at`: when it was created, Unix milliseconds. */
type Begun = Asked & { at: number }

/** What a prediction is to do. Times in milliseconds. */
type Job = {
  prompt: string
  delay: number
  duration: number
  lines: number
  hangs: boolean
  failure?: string
  output?: unknown
  size?: Size
}

const STEERING = ['prompt', 'delay', 'duration', 'logs', 'fail', 'hang', 'output', 'image'] as const
/** Of a prompt, what an id has room for. */
const PROMPT_LENGTH = 256
/** An id is part of a path. */
const ID_LENGTH = 4000
const DEFAULT_DURATION = 500
const DEFAULT_LINES = 4

/** The body of a create. `model`: from the path. Throws the 400s of what it does not take. */
export function readCreate(json: Record<string, unknown>, model: string | undefined): Asked {
  const body = new Fields(json)
  const version = body.string('version')
  const named = model ?? body.string('model') ?? version?.split(':', 1)[0]
  if (named === undefined) throw invalid('version', 'is required where the path names no model')
  if (named.includes('missing'))
    throw new GatewayError('model_not_found', `The model '${named}' does not exist.`, { param: 'model' })
  const { value: given } = body.require('input', body.object('input'), 'an object')
  const input = Object.fromEntries(
    STEERING.flatMap((name) => (given[name] === undefined || given[name] === null ? [] : [[name, given[name]]])),
  )
  jobOf(input)
  return { model: named, version: version ?? 'sandbox', input }
}

/** The id of a new prediction. Throws the 400 of one that an id has no room for. */
export function idOf({ model, version, input }: Asked, at: number): string {
  const { prompt } = input
  const kept = typeof prompt === 'string' ? { ...input, prompt: prompt.slice(0, PROMPT_LENGTH) } : input
  const id = toToken(JSON.stringify([at, randomBytes(4).toString('hex'), model, version, kept]), 'prediction')
  if (id.length > ID_LENGTH)
    throw invalid(
      'input',
      `is too long: the id of a prediction holds all of it but the end of a long prompt, in ${ID_LENGTH} characters`,
    )
  return id
}

function begunOf(id: string): Begun {
  const text = fromToken(id, 'prediction')
  if (text === undefined) throw new GatewayError('not_found', 'There is no such prediction.')
  const [at, , model, version, input] = JSON.parse(text) as [number, string, string, string, Record<string, unknown>]
  return { at, model, version, input }
}

function jobOf(given: Record<string, unknown>): Job {
  const input = new Fields(given, 'input')
  const fail = input.take('fail')
  if (fail !== undefined && typeof fail !== 'boolean' && typeof fail !== 'string')
    throw invalid('input.fail', 'must be true or the message to fail with')
  return {
    prompt: readDirectives(input.string('prompt') ?? '').rest,
    delay: readTime(input, 'delay') ?? 0,
    duration: readTime(input, 'duration') ?? DEFAULT_DURATION,
    lines: input.integer('logs', { min: 0, max: 1000 }) ?? DEFAULT_LINES,
    hangs: input.boolean('hang') ?? false,
    ...present('failure', fail === true ? 'The sandbox was asked to fail.' : fail === false ? undefined : fail),
    ...present('output', input.take('output')),
    ...present('size', readSize(input)),
  }
}

/** A number of seconds, or a text with its unit. */
function readTime(input: Fields, name: string): number | undefined {
  const value = input.take(name)
  if (value === undefined) return undefined
  const text = typeof value === 'number' ? `${value}s` : typeof value === 'string' && value.endsWith('s') ? value : ''
  const time = milliseconds(text)
  if (time === undefined)
    throw invalid(input.at(name), "must be a number of seconds, or a text like '2s' or '500ms', of at most ten minutes")
  return time
}

function readSize(input: Fields): Size | undefined {
  const text = input.string('image')
  if (text === undefined) return undefined
  const [, width = 0, height = 0] = /^(\d+)x(\d+)$/.exec(text)?.map(Number) ?? []
  if (!isDrawable({ width, height })) throw invalid('input.image', `must be a size like '640x480', of ${SIDE_LIMITS}`)
  return { width, height }
}

/**
 * How far a prediction is at an instant, as the API tells it. `base`: the address before `/predictions`. Throws the 404
 * of an id that was not made here.
 */
export function predictionAt(id: string, base: string, now: number, canceledAt = Infinity): Record<string, unknown> {
  const { at, model, version, input } = begunOf(id)
  const job = jobOf(input)
  const begins = at + job.delay
  const ends = job.hangs ? Infinity : begins + job.duration
  const over = Math.min(ends, canceledAt)
  const upTo = Math.min(now, over)
  const status =
    now < over
      ? now < begins
        ? 'starting'
        : 'processing'
      : canceledAt < ends
        ? 'canceled'
        : job.failure === undefined
          ? 'succeeded'
          : 'failed'
  return {
    id,
    model,
    version,
    input,
    status,
    output: status === 'succeeded' ? outputOf(job) : null,
    error: status === 'failed' ? job.failure : null,
    logs: logsOf(job, upTo - begins, status === 'succeeded'),
    created_at: timeOf(at),
    started_at: upTo < begins ? null : timeOf(begins),
    completed_at: now < over ? null : timeOf(over),
    metrics: now < over ? {} : { predict_time: Math.max(0, over - begins) / 1000 },
    urls: { get: `${base}/predictions/${id}`, cancel: `${base}/predictions/${id}/cancel` },
  }
}

const timeOf = (at: number): string => new Date(at).toISOString()

/** What was asked for, a picture, or the words of the prompt. */
function outputOf({ output, size, prompt }: Job): unknown {
  if (output !== undefined) return output
  if (size === undefined) return prompt.match(/\S+\s*/g) ?? ['You ', 'said ', 'nothing.']
  return [`data:image/png;base64,${drawPicture({ ...size, prompt, index: 0 }).toString('base64')}`]
}

/**
 * Progress as `tqdm` writes it, a line whenever its share of the duration has passed; only a success gets to the last
 * one.
 */
function logsOf({ lines, duration }: Job, elapsed: number, succeeded: boolean): string {
  const passed = duration === 0 ? lines : Math.floor((Math.max(0, elapsed) / duration) * lines)
  const told = Math.max(0, Math.min(passed, succeeded ? lines : lines - 1))
  return Array.from({ length: told }, (_, i) => progress(i + 1, lines)).join('')
}

const progress = (step: number, steps: number): string =>
  `${String(Math.floor((step / steps) * 100)).padStart(3)}%|${'#'.repeat(Math.floor((step / steps) * 10)).padEnd(10)}| ${step}/${steps}\n`

/** An error in the API's shape. A 400 of ours is a 422 there. */
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
