import { checkAllowed } from '../accounts/allowed-models.ts'
import { penaltyOf, type AbuseDetection } from '../accounts/abuse-detection.ts'
import type { Identity, Keys } from '../accounts/keys.ts'
import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import { CLASS_MEMBERS } from '../generation/service-class.ts'
import type { Usage } from '../generation/usage.ts'
import type { Endpoint, PredictionEndpoint } from '../providers/catalogue.ts'
import type { DiskSpace } from '../store/disk-space.ts'
import type { Nano } from '../money.ts'
import type { RequestedClass } from '../protocols/requested-output.ts'
import { ASSUMED_OUTPUT_TOKENS } from './estimate.ts'
import type { Ledger, OpenGeneration } from './ledger.ts'
import { imageTool, leavesImagesOpen, type ImageTool } from './image-tool.ts'
import { mostExpensive, endpointsByModel, type ModelTerms } from './model-terms.ts'
import { isConfigured, isFree, type Price, type Prices } from './prices.ts'
import { hasUnbilledFee, hasUnbilledSearches, hasUnbilledSearching, searchRate } from './tool-fees.ts'
import { unknownClasses, type PricedClasses, type ServiceClasses } from './service-classes.ts'

type Modules = {
  ledger: Ledger
  prices: Prices
  serviceClasses: ServiceClasses
  abuseDetection: AbuseDetection
  config: Config
  keys: AccountCount
  space: DiskSpace
}

type AccountCount = Pick<Keys, 'haveOneAccount'>

/** The client. `id` becomes the generation's. */
type Caller = {
  request: Pick<Request, 'headers'>
  id: string
  identity: Identity
  receivedAt: number
  address: (() => string | undefined) | undefined
}

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
  hasTools?: boolean
  /** Set where the output limit may be lowered to what can be paid: the limit in the request. */
  lowerable?: { maxOutputTokens?: number | undefined } | undefined
  /** The response can be ended before its model ends it. */
  isEndable?: boolean
  /** The most responses that may be generated. */
  candidates?: number
  /** Number of responses that the client asks for. */
  choices?: number | undefined
  countInput: () => Promise<number>
  /** The classes of service that it asks for, and the other models that it has its provider use. */
  classes?: readonly RequestedClass[]
}

/**
 * Reserves the most that a generation may cost, whichever of its models answers. Throws permission_denied where the key
 * may not use one of them, invalid_request for a model without a price, store_unavailable with a nearly full disk,
 * and the errors of `Ledger.reserve`. The account must be loaded.
 */
export function reserve(
  { ledger, prices, serviceClasses, abuseDetection, config, keys, space }: Modules,
  { request, id, identity, receivedAt, address }: Caller,
  {
    api,
    model,
    endpoints,
    streamed,
    worst,
    hasTools,
    lowerable,
    isEndable = false,
    candidates,
    choices,
    countInput,
    classes = [],
  }: GenerationTerms,
): OpenGeneration {
  const { accountId, keyId, kind, limit } = identity
  space.checkGeneration()
  checkOtherModels(identity, endpoints, classes, servesUnpriced(config, keys, 'unpriced'))
  const models = endpointsByModel(model, endpoints).map(([name, own]): ModelTerms => {
    checkAllowed(identity, name)
    const price = prices.of(name, own)
    if (price === undefined && !servesUnpriced(config, keys, 'unpriced')) throw unpriced(name)
    const images = requestedImageTool(prices, own, classes)
    const priced = pricedClasses(serviceClasses.of(name, own), classes, images, requestedSearchRate(own, classes))
    if (price !== undefined && !servesUnpriced(config, keys, 'unpricedClasses'))
      checkClasses(name, price, priced, classes)
    if (price !== undefined && !servesUnpriced(config, keys, 'unpricedTools')) {
      if (!isFree(price)) checkTools(own, classes, config.billing.unpricedTools === 'auto')
      if (!isConfigured(price)) checkSearches(name, own, price, classes)
      if (images !== undefined && leavesImagesOpen(price)) checkImageTool(name, images, classes)
    }
    return { model: name, price, classes: priced }
  })
  const modelLimit = modelLimitOf(endpoints)
  const most = worst(modelLimit)
  const { price, classes: priced } = models.length === 1 ? models[0]! : mostExpensive(models, most)
  const open = ledger.reserve(
    {
      id,
      accountId,
      keyId,
      kind,
      limit,
      price,
      classes: priced,
      models: models.length === 1 && models[0]!.model === model ? undefined : models,
      api,
      model,
      client: clientOf(request),
      createdAt: receivedAt,
      streamed,
      discount: identity.discount,
      penalty: penaltyOf(identity.accountStatus, config.accountStatus),
      worst: most,
      hasTools,
      mayLower: lowerable !== undefined && isPlain(most, lowerable.maxOutputTokens ?? modelLimit),
      mayEnd: isEndable && most.images === 0,
      candidates: isEndable ? candidates : undefined,
      choices,
    },
    countInput,
  )
  abuseDetection.begin(accountId, address)
  return open
}

const CLIENT_LENGTH = 80

/** The program that sends a request, as it names itself. */
export const clientOf = ({ headers }: Pick<Request, 'headers'>): string | null =>
  headers.get('user-agent')?.slice(0, CLIENT_LENGTH) ?? null

type Unpriced = 'unpriced' | 'unpricedClasses' | 'unpricedTools'

/** True where what has no price can be requested; `what`: models, classes of service or tools. */
export const servesUnpriced = ({ billing }: Config, keys: AccountCount, what: Unpriced): boolean =>
  billing[what] === 'auto' ? keys.haveOneAccount : billing[what] !== 'refuse'

/** True where the output is bounded by this limit alone: not by several answers, images or other members. */
const isPlain = ({ outputTokens, images }: Usage, limit = ASSUMED_OUTPUT_TOKENS): boolean =>
  images === 0 && outputTokens === limit

/** The largest output limit of the endpoints; undefined where none is known. */
export function modelLimitOf(endpoints: readonly Pick<Endpoint, 'target'>[]): number | undefined {
  const limit = Math.max(...endpoints.map(({ target }) => target.capabilities.maxOutputTokens ?? 0))
  return limit === 0 ? undefined : limit
}

/** Undefined where neither the model nor the request has any. */
function pricedClasses(
  factors: PricedClasses['factors'],
  classes: readonly RequestedClass[],
  images: ImageTool | undefined,
  searchRate: Nano | undefined,
): PricedClasses | undefined {
  if (classes.length === 0 && Object.keys(factors).length === 0) return undefined
  const own = classes.filter(({ member }) => (CLASS_MEMBERS as readonly string[]).includes(member))
  const requested = Object.fromEntries(own.map(({ member, value }) => [member, value]))
  return { factors, requested, images, searchRate }
}

/** The rate of searches by the engine that a request names, where that is not the one of the model's price. */
function requestedSearchRate(
  endpoints: GenerationTerms['endpoints'],
  classes: readonly RequestedClass[],
): Nano | undefined {
  const { engine } = classes.find(({ member, engine: named }) => member === 'search' && named !== undefined) ?? {}
  if (engine === undefined) return undefined
  const rates = endpoints.map(({ target }) => searchRate(target.provider, target.model, engine))
  return rates.find((rate) => rate !== undefined)
}

/** The tool that a model of these endpoints has its provider draw with; undefined where it is not requested. */
export function requestedImageTool(
  prices: Pick<Prices, 'named'>,
  endpoints: readonly Pick<Endpoint | PredictionEndpoint, 'protocol' | 'target'>[],
  classes: readonly RequestedClass[],
): ImageTool | undefined {
  const requested = classes.find(({ member }) => member === 'image')
  const drawing = endpoints.find(({ protocol }) => protocol === 'responses')
  if (requested === undefined || drawing === undefined) return undefined
  return imageTool(drawing.target.provider, requested.value, (...model) => prices.named(...model))
}

/** Throws unsupported_parameter for a tool that draws with a model without a price. */
function checkImageTool(
  name: string,
  { model = 'this tool', price }: ImageTool,
  classes: readonly RequestedClass[],
): void {
  if (price !== undefined) return
  const { param } = classes.find(({ member }) => member === 'image')!
  throw new GatewayError(
    'unsupported_parameter',
    `${param}: images of ${model.slice(0, 64)} have no known price; leave it out. ` +
      `Its operator can set models.${name}.price with image, or billing.unpricedTools: free, in sluice.yaml.`,
    { param },
  )
}

/** Throws unsupported_parameter for a class of service that could not be billed. */
function checkClasses(
  model: string,
  price: Price,
  priced: PricedClasses | undefined,
  classes: readonly RequestedClass[],
): void {
  if (classes.length === 0 || priced === undefined || isFree(price)) return
  const [unknown] = unknownClasses(priced.factors, priced.requested)
  if (unknown === undefined) return
  const { param, value } = classes.findLast(({ member }) => member === unknown)!
  throw new GatewayError(
    'unsupported_parameter',
    `${param}: '${value.slice(0, 64)}' has no known price for ${model}; leave it out. Its operator can set ` +
      `models.${model}.classes: { ${unknown}=${value.slice(0, 64)}: FACTOR }, or billing.unpricedClasses: plain, in ` +
      'sluice.yaml.',
    { param },
  )
}

/** Throws unsupported_parameter for a tool that a provider runs for a fee that no bill would have. */
function checkTools(
  endpoints: GenerationTerms['endpoints'],
  classes: readonly RequestedClass[],
  isQuotaFree: boolean,
): void {
  for (const { member, value, param } of classes) {
    if (member !== 'tool') continue
    const charging = endpoints.find(({ target }) => hasUnbilledFee(target.provider, value, isQuotaFree))
    if (charging === undefined) continue
    throw new GatewayError(
      'unsupported_parameter',
      `${param}: ${charging.provider.name} charges a fee for this tool (${value}) that cannot be billed; leave ` +
        'it out. Its operator can set billing.unpricedTools: free in sluice.yaml.',
      { param },
    )
  }
}

/**
 * Throws unsupported_parameter for searches that a list price does not have. The operator's own prices say what is
 * charged.
 */
function checkSearches(
  model: string,
  endpoints: GenerationTerms['endpoints'],
  price: Price,
  classes: readonly RequestedClass[],
): void {
  const searching = endpoints.find(({ target }) => hasUnbilledSearching(target.provider, target.model, price))
  const searches = classes.filter(({ member }) => member === 'search')
  const requested = searches.find(({ engine }) => engine !== undefined) ?? searches[0]
  const charging =
    searching ??
    (requested && endpoints.find(({ target }) => hasUnbilledSearches(target.provider, price, requested.engine ?? '')))
  if (charging === undefined) return
  const { param, what, item, instead } =
    searching === undefined
      ? { param: requested!.param, what: requested!.value, item: 'web_search', instead: 'leave it out' }
      : { param: 'model', what: `${model} searches always`, item: 'request', instead: 'use another model' }
  throw new GatewayError(
    'unsupported_parameter',
    `${param}: ${charging.provider.name} charges a fee for searches (${what}) that has no known price; ${instead}. ` +
      `Its operator can set models.${model}.price with ${item}, or billing.unpricedTools: free, in sluice.yaml.`,
    { param },
  )
}

/**
 * Throws for another model that a request has its provider use: permission_denied where the key may not use it, and
 * unsupported_parameter where its use, which the response reports apart or not at all, would have to be billed.
 */
function checkOtherModels(
  { allows }: Identity,
  endpoints: GenerationTerms['endpoints'],
  classes: readonly RequestedClass[],
  mayBeFree: boolean,
): void {
  for (const { member, value, param } of classes) {
    if (member !== 'model') continue
    const names = [value, ...endpoints.map(({ target }) => `${target.provider}/${value}`)]
    const name = value.slice(0, 64)
    if (!names.some(allows))
      throw new GatewayError('permission_denied', `${param}: this key is not allowed to use the model ${name}.`, {
        param,
      })
    if (!mayBeFree)
      throw new GatewayError(
        'unsupported_parameter',
        `${param}: what ${name} costs beside the requested model cannot be billed; leave it out. ` +
          'Its operator can set billing.unpriced: free in sluice.yaml.',
        { param },
      )
  }
}

const unpriced = (model: string): GatewayError =>
  new GatewayError(
    'invalid_request',
    `The model ${model} has no price and cannot be billed. ` +
      `Its operator can set models.${model}.price, or billing.unpriced: free, in sluice.yaml.`,
    { param: 'model' },
  )
