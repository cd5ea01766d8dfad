import { checkAllowed } from '../accounts/allowed-models.ts'
import { penaltyOf, type AbuseDetection } from '../accounts/abuse-detection.ts'
import type { Identity } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { Usage } from '../generation/usage.ts'
import type { Endpoint, PredictionEndpoint } from '../providers/catalogue.ts'
import type { DiskSpace } from '../store/disk-space.ts'
import type { Ledger, OpenGeneration } from './ledger.ts'
import type { Prices } from './prices.ts'

type Services = {
  ledger: Ledger
  prices: Prices
  abuseDetection: AbuseDetection
  config: Config
  space: DiskSpace
}

/** The client. `id` becomes the generation's. */
type Caller = { id: string; identity: Identity; receivedAt: number; address: (() => string | undefined) | undefined }

/**
 * The requested generation. `worst`: the most it may use, given the largest output limit of its endpoints.
 * `countInput`: its input tokens, for a provider that reports none.
 */
type GenerationTerms = {
  api: string
  model: string
  endpoints: readonly (Endpoint | PredictionEndpoint)[]
  streamed: boolean
  worst: (modelLimit: number | undefined) => Usage
  countInput: () => Promise<number>
}

/**
 * Reserves the most that a generation may cost. Throws permission_denied where the key may not use the model,
 * invalid_request for a model without a price, store_unavailable while the disk is nearly full, and the errors of
 * `Ledger.reserve`. The account must be loaded.
 */
export function reserve(
  { ledger, prices, abuseDetection, config, space }: Services,
  { id, identity, receivedAt, address }: Caller,
  { api, model, endpoints, streamed, worst, countInput }: GenerationTerms,
): OpenGeneration {
  const { accountId, keyId, kind, limit } = identity
  space.checkGeneration()
  checkAllowed(identity, model)
  const price = prices.of(model, endpoints)
  if (price === undefined && config.billing.unpriced === 'refuse') throw unpriced(model)
  const open = ledger.reserve(
    {
      id,
      accountId,
      keyId,
      kind,
      limit,
      price,
      api,
      model,
      createdAt: receivedAt,
      streamed,
      discount: identity.discount,
      penalty: penaltyOf(identity.accountStatus, config.accountStatus),
      worst: worst(modelLimitOf(endpoints)),
    },
    countInput,
  )
  abuseDetection.begin(accountId, address)
  return open
}

/** The largest output limit of the endpoints; undefined where none is known. */
export function modelLimitOf(endpoints: readonly Pick<Endpoint, 'target'>[]): number | undefined {
  const limit = Math.max(...endpoints.map(({ target }) => target.capabilities.maxOutputTokens ?? 0))
  return limit === 0 ? undefined : limit
}

const unpriced = (model: string): GatewayError =>
  new GatewayError(
    'invalid_request',
    `The model ${model} has no price and cannot be billed. ` +
      `Its operator can set models.${model}.price, or billing.unpriced: free, in sluice.yaml.`,
    { param: 'model' },
  )
