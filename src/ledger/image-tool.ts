import feesFile from '../../catalog/tool-fees.json'
import { IMAGE_TOOL_ITEMS } from '../config/terms.ts'
import { IMAGE_TOOL_BUCKETS, type Usage } from '../generation/usage.ts'
import { IMAGE_TOOL_CALLS } from './estimate.ts'
import { isFree, type Price } from './prices.ts'

/**
 * The tool by which a provider has an image model draw for the requested one. Its tokens are reported apart, and cost
 * what that model charges.
 */

/** By provider, the model that draws where a request names none. */
const DEFAULT_MODELS: ReadonlyMap<string, string> = new Map(
  feesFile.imageTools.map(({ provider, model }) => [provider, model]),
)

/** The image model that a request has drawn with, and its price; neither is known of most providers. */
export type ImageTool = { model?: string | undefined; price?: Price | undefined }

/** Looks up the price of a provider's model. */
type PriceOf = (provider: string, model: string) => Price | undefined

/** `named`: by the request; '' where it names none. */
export function imageTool(provider: string, named: string, priceOf: PriceOf): ImageTool {
  const model = named === '' ? DEFAULT_MODELS.get(provider) : named
  return { model, price: model === undefined ? undefined : priceOf(provider, model) }
}

/** The tool as it was used: by the model that the response names, at the price of the request's where that has none. */
export function usedImageTool(
  requested: ImageTool | undefined,
  { provider, imageModel }: { provider: string; imageModel: string | undefined },
  priceOf: PriceOf,
): ImageTool {
  const model = imageModel ?? requested?.model
  if (requested?.price !== undefined && model === requested.model) return requested
  const { price = requested?.price, ...used } = imageTool(provider, model ?? '', priceOf)
  return { ...used, price }
}

export const usesImageTool = (usage: Usage): boolean => IMAGE_TOOL_BUCKETS.some((bucket) => usage[bucket] > 0)

/**
 * Usage that is not reported, with the images that a tool had drawn by then: each as it was held. A response whose
 * provider is cancelled after an image has no report of it.
 */
export function withDrawnImages(usage: Usage, worst: Usage): Usage {
  if (usage.images === 0 || usesImageTool(usage)) return usage
  const each = worst.imageToolOutputImageTokens / IMAGE_TOOL_CALLS
  return { ...usage, imageToolOutputImageTokens: usage.images * each }
}

/** False where a price says what images cost: of the operator's own, as of models that draw themselves. */
export const leavesImagesOpen = (price: Price): boolean =>
  !isFree(price) && price.rates.image === undefined && IMAGE_TOOL_ITEMS.every((item) => price.rates[item] === undefined)

/** By both prices: the same object rates all requests of a model. */
const JOINED = new WeakMap<Price, WeakMap<Price, Price>>()

/** A price with that of the image model. */
export function withImageTool(price: Price, { model, price: images }: ImageTool): Price {
  if (images === undefined || !leavesImagesOpen(price)) return price
  let joined = JOINED.get(price)
  if (joined === undefined) JOINED.set(price, (joined = new WeakMap()))
  let result = joined.get(images)
  if (result === undefined) {
    const { prompt, input_image, completion, output_image, image } = images.rates
    const rates: [string, (typeof images.rates)['prompt']][] = Object.entries({
      ...price.rates,
      image_tool_prompt: prompt,
      image_tool_input_image: input_image,
      image_tool_completion: completion,
      image_tool_output_image: output_image,
      image,
    })
    result = {
      version: `${price.version} +${model} ${images.version}`,
      model: price.model,
      rates: Object.fromEntries(rates.filter(([, rate]) => rate !== undefined)),
    }
    joined.set(images, result)
  }
  return result
}
