import { noUsage, type Usage } from '../generation/usage.ts'
import type { Nano } from '../money.ts'
import { termsFor } from './model-terms.ts'
import type { ReservationRequest } from './open-generation.ts'
import type { Price } from './prices.ts'
import { rateWorst } from './rating.ts'
import { heldPrice } from './service-classes.ts'

/** An output limit is not lowered below this. */
const LEAST_OUTPUT_TOKENS = 256

/** Lowers the output limit of a request to what `available` nano-USD pay for; false where that is too little. */
export function lower(request: ReservationRequest, available: Nano): boolean {
  const { worst, discount } = request
  const fits = outputFitting(available, worst, (usage) => {
    const { price, classes } = termsFor(request, usage)
    return price === undefined ? 0n : rateWorst(usage, heldPrice(price, classes), discount).bill
  })
  if (fits === undefined || fits < LEAST_OUTPUT_TOKENS || fits >= worst.outputTokens) return false
  request.worst = { ...worst, outputTokens: fits }
  request.loweredTo = fits
  return true
}

/** A sentence on what to request instead: the output limit that `available` nano-USD of the balance pay for. */
export function adviceFor(available: Nano, worst: Usage, price: Price, discount: number): string {
  if (costsImages(worst, price)) return 'Add credit, or request fewer or smaller images.'
  if (feeOf(price, discount) > available) return 'The balance does not cover the fee of a request: add credit.'
  const fits = outputThatFits(available, worst, price, discount)
  if (fits === undefined) return 'The balance does not cover its input: add credit, or shorten the request.'
  if (fits === 0) return 'The balance covers none of its output: add credit, or shorten the request.'
  return `Add credit, or set an output limit of at most ${fits} tokens.`
}

/** The same for what is left of its key's limit. */
export function keyAdviceFor(left: Nano, worst: Usage, price: Price, discount: number): string {
  if (costsImages(worst, price)) return 'Request fewer or smaller images.'
  if (feeOf(price, discount) > left) return 'That does not cover the fee of a request.'
  const fits = outputThatFits(left, worst, price, discount)
  if (fits === undefined) return 'That does not cover its input.'
  return fits === 0 ? 'That covers none of its output.' : `An output limit of at most ${fits} tokens fits.`
}

/** False for predictions that have a fee for each, whose images are counted all the same. */
const costsImages = (worst: Usage, price: Price): boolean =>
  worst.images > 0 &&
  rateWorst(worst, price, 0).bill > rateWorst({ ...worst, images: 0, outputTokens: 0 }, price, 0).bill

const feeOf = (price: Price, discount: number): Nano => rateWorst(noUsage(), price, discount).bill

/** The largest output limit that `available` nano-USD pay for, at most the held one; undefined if the input is more. */
const outputThatFits = (available: Nano, worst: Usage, price: Price, discount: number): number | undefined =>
  outputFitting(available, worst, (usage) => rateWorst(usage, price, discount).bill)

function outputFitting(available: Nano, worst: Usage, billOf: (usage: Usage) => Nano): number | undefined {
  const bill = (outputTokens: number): Nano => billOf({ ...worst, outputTokens })
  if (bill(0) > available) return undefined
  if (bill(worst.outputTokens) <= available) return worst.outputTokens
  return mostOutput(0, worst.outputTokens, (tokens) => bill(tokens) <= available)
}

/** The largest number of tokens that fits, given one that does and a larger one that does not. */
export function mostOutput(fitting: number, tooMany: number, fits: (tokens: number) => boolean): number {
  while (tooMany - fitting > 1) {
    const middle = Math.floor((fitting + tooMany) / 2)
    if (fits(middle)) fitting = middle
    else tooMany = middle
  }
  return fitting
}
