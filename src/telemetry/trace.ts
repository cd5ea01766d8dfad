import { randomBytes } from 'node:crypto'

/** The headers of W3C Trace Context. */
export type TraceHeaders = { traceparent: string; tracestate?: string }

const PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)
/** Lists of vendors are passed on up to this length, as the specification asks at least. */
const STATE_MAX = 512
const PRINTABLE = /^[\x20-\x7e]+$/

/** The place in a trace from which a request came. */
type RemoteParent = CallTrace & {
  traceId: string
  spanId: string
  isSampled: boolean
  headers: TraceHeaders
}

/** The client's `traceparent` and `tracestate`; undefined where it sent none that is valid. */
export function remoteParent(headers: Headers): RemoteParent | undefined {
  const traceparent = headers.get('traceparent')
  if (traceparent === null) return undefined
  const [, version, traceId, spanId, flags, more] = PARENT.exec(traceparent.trim()) ?? []
  if (traceId === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (traceId === NO_TRACE || spanId === NO_SPAN) return undefined
  const state = headers.get('tracestate')
  const isUsable = state !== null && state.length <= STATE_MAX && PRINTABLE.test(state)
  const passed = { traceparent: traceparent.trim(), ...(isUsable ? { tracestate: state } : {}) }
  return {
    traceId,
    spanId: spanId!,
    isSampled: (Number.parseInt(flags!, 16) & 1) === 1,
    headers: passed,
    headersFor: () => passed,
  }
}

/** Gives each call its headers, and its span where it has one. */
export type CallTrace = { headersFor(call: { spanId?: string }): TraceHeaders }

/** One request that is traced, with the calls that it makes. */
export class RequestTrace implements CallTrace {
  readonly traceId: string
  readonly parent: RemoteParent | undefined
  readonly method: string
  /** Unix milliseconds. */
  readonly startedAt: number
  /** Unix milliseconds: the beginning of the first attempt. */
  attemptsAt = 0

  constructor(traceId: string, parent: RemoteParent | undefined, method: string, startedAt: number) {
    this.traceId = traceId
    this.parent = parent
    this.method = method
    this.startedAt = startedAt
  }

  headersFor(call: { spanId?: string }): TraceHeaders {
    const spanId = (call.spanId = newSpanId())
    const tracestate = this.parent?.headers.tracestate
    const traceparent = `00-${this.traceId}-${spanId}-01`
    return tracestate === undefined ? { traceparent } : { traceparent, tracestate }
  }
}

const ID_BYTES = 8
const ID_DIGITS = 2 * ID_BYTES
/** Each conversion is a call into the runtime; an id keeps the digits of so many in memory. */
const CONVERTED = 16
let random = Buffer.alloc(0)
let usedBytes = 0
let digits = ''
let usedDigits = 0

/** 64 random bits in hexadecimal. */
export function newSpanId(): string {
  if (usedDigits === digits.length) {
    if (usedBytes === random.length) {
      random = randomBytes(ID_BYTES * CONVERTED * CONVERTED)
      usedBytes = 0
    }
    digits = random.toString('hex', usedBytes, (usedBytes += ID_BYTES * CONVERTED))
    usedDigits = 0
  }
  return digits.slice(usedDigits, (usedDigits += ID_DIGITS))
}

/** The traces that are recorded: all or none or a share, and as the client decided where it did. */
export type Sampler = { ratio: number; isParentBased: boolean }

const BITS = 2 ** 56

/** The same for all servers of a trace: its last 56 bits are random. */
export const isSampled = ({ ratio, isParentBased }: Sampler, traceId: string, parent?: RemoteParent): boolean =>
  isParentBased && parent !== undefined
    ? parent.isSampled
    : ratio === 1 || Number.parseInt(traceId.slice(18), 16) < ratio * BITS
