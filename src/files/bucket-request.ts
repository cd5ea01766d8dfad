import { GatewayError } from '../error.ts'
import { type ByteSource, type OutgoingRequest, send } from '../http/call.ts'
import type { BucketFailure } from './bucket-health.ts'

const CONNECT_MS = 5_000
/** Objects and pages of a list are smaller. */
const ANSWER_BYTES = 8 * 2 ** 20
const NEVER = new AbortController().signal

/** `reason`: the server's code, or what happened, without secrets. */
export class BucketError extends Error {
  readonly failure: BucketFailure
  readonly reason: string

  constructor(failure: BucketFailure, reason: string, cause?: unknown) {
    super(reason, { cause })
    this.failure = failure
    this.reason = reason
  }
}

export type Answer = { status: number; body: Uint8Array }

/** One request and its whole answer. Throws BucketError where there is none in time; its connection is closed then. */
export async function answerTo(
  request: Pick<OutgoingRequest, 'url' | 'method' | 'headers' | 'body'>,
  limitMs: number,
): Promise<Answer> {
  const timeouts = { connectMs: CONNECT_MS, firstByteMs: limitMs, idleMs: limitMs, totalMs: limitMs }
  try {
    const { status, headers, body } = await send({ ...request, timeouts, signal: NEVER })
    return { status, body: await readBytes(body, Number(headers.get('content-length') ?? 0)) }
  } catch (error) {
    throw failureOf(error, limitMs)
  }
}

/** The error that an answer is, with the server's code. */
export function refusalOf({ status, body }: Answer): BucketError {
  const reason = codeIn(body) ?? `status ${status}`
  const isPassing = status >= 500 || status === 429 || reason === 'RequestTimeout'
  return new BucketError(isPassing ? 'failed' : 'refused', reason)
}

/** `declared`: the number of bytes, as far as it is known. */
async function readBytes(source: ByteSource, declared: number): Promise<Uint8Array> {
  let bytes = new Uint8Array(Math.min(declared, ANSWER_BYTES))
  let length = 0
  for (let chunk = await source.read(); chunk !== undefined; chunk = await source.read()) {
    const end = length + chunk.length
    if (end > ANSWER_BYTES) {
      source.cancel()
      throw new BucketError('failed', `an answer of more than ${ANSWER_BYTES} bytes`)
    }
    if (end > bytes.length) {
      const longer = new Uint8Array(Math.max(end, 2 * bytes.length))
      longer.set(bytes)
      bytes = longer
    }
    bytes.set(chunk, length)
    length = end
  }
  return bytes.subarray(0, length)
}

/** The text of what failed below is about providers. */
function failureOf(error: unknown, limitMs: number): unknown {
  if (!(error instanceof GatewayError)) return error
  if (error.code === 'upstream_timeout')
    return new BucketError('timeout', `no answer in ${Math.ceil(limitMs / 1000)} seconds`, error)
  const { code } = (error.cause ?? {}) as { code?: string }
  return new BucketError('connection', code ?? 'the connection failed', error)
}

/** The code in an error of S3: one word, or what answers is no such server. */
const codeIn = (body: Uint8Array): string | undefined => /<Code>(\w{1,64})<\/Code>/.exec(textOf(body))?.[1]

export const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

export const memberOf = (xml: string, name: string): string | undefined =>
  new RegExp(`<${name}>([^<]*)</${name}>`)
    .exec(xml)?.[1]
    ?.replace(/&(amp|lt|gt|quot|apos);/g, (_, entity: string) => ENTITIES[entity]!)
