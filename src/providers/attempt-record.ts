import { shortened, type GatewayError } from '../error.ts'

/**
 * One attempt at one provider. `credential`: the name of its key, if it has several; `startedMs`: since the first
 * attempt began; `sent`: the request was sent; `status`: of an error response; `error`, `message`: the code of its
 * failure and the beginning of its text; `reason`: why it was given up;
 * `missedCacheTokens`: in the cache of the endpoint that the conversation left.
 */
export type AttemptRecord = {
  provider: string
  credential?: string
  model?: string
  protocol?: string
  startedMs?: number
  sent?: boolean
  status?: number
  error?: string
  message?: string
  reason?: string
  missedCacheTokens?: number
  /** The span of its trace. */
  spanId?: string
  milliseconds: number
}

const MESSAGE_LENGTH = 500

/** Adds the failure of an attempt to its record. */
export function recordFailure(record: Pick<AttemptRecord, 'error' | 'message'>, { code, message }: GatewayError): void {
  record.error = code
  record.message = shortened(message, MESSAGE_LENGTH)
}

/** The members of an attempt in the record of its generation. */
export const RECORDED_ATTEMPT = [
  'provider',
  'credential',
  'model',
  'protocol',
  'startedMs',
  'milliseconds',
  'status',
  'error',
  'message',
  'reason',
  'missedCacheTokens',
] as const satisfies readonly (keyof AttemptRecord)[]

/** The model of a provider that a name with its id says, `m` of `acme/m`; undefined for a name of `sluice.yaml`. */
export const modelNamed = (name: string, provider: string): string | undefined =>
  name.startsWith(`${provider}/`) ? name.slice(provider.length + 1) : undefined
