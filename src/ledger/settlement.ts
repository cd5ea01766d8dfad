import type { Budgets } from '../accounts/budget.ts'
import type { Plans } from '../accounts/plans.ts'
import type { Quota } from '../accounts/quota.ts'
import type { Usage } from '../generation/usage.ts'
import type { Nano } from '../money.ts'
import { lossesHeader } from '../protocols/losses.ts'
import { modelNamed, RECORDED_ATTEMPT } from '../providers/attempt-record.ts'
import type { Closing, GenerationRecord, Transfer } from '../store/store.ts'
import { chargesOf, type Payment } from './book.ts'
import { credible, disputeText } from './disputes.ts'
import { imageTool, usedImageTool, usesImageTool, withDrawnImages } from './image-tool.ts'
import type { Estimation, Meter } from './meter.ts'
import type { OpenGeneration } from './open-generation.ts'
import { storedPrice, type Price, type Prices } from './prices.ts'
import { rate } from './rating.ts'
import { servedPrice } from './service-classes.ts'
import type { Wallet } from './wallet.ts'

/** The sources a settlement draws on. `wallet`: pay-as-you-go only; `quota`: subscriptions only. */
type Funds = { wallet: Wallet | undefined; quota: Quota | undefined; budgets: Budgets }

/**
 * The usage that a generation is charged for. `estimation`: the way in which a part of it was counted that its provider
 * did not report.
 */
export type ChargedUsage = { usage: Usage; estimation: Estimation | undefined }

/** Amounts in nano-USD, flows in micro-flows. `payment`: pay-as-you-go only. */
export type SettlementTerms = {
  record: GenerationRecord
  transfers: Transfer[]
  payment: Payment | undefined
  bill: Nano
  flows: bigint
  /** A line for the operator about usage that cannot have been asked for. */
  dispute: string | undefined
}

/** Computes bill, flows, payment, postings and record of a generation that has ended; changes nothing. */
export function settlementOf(
  open: OpenGeneration,
  { usage: reported, estimation }: ChargedUsage,
  { wallet, plans, prices }: { wallet: Wallet | undefined; plans: Plans; prices: Pick<Prices, 'cost' | 'named'> },
): SettlementTerms {
  const { request, hold, meter } = open
  const { accountId, discount, penalty, classes } = request
  const isCharged = meter.charge !== 'nothing'
  const mayHaveDrawn = estimation !== undefined && classes?.images !== undefined
  const { usage, disputed } = credible(mayHaveDrawn ? withDrawnImages(reported, request.worst) : reported, request)
  const served = isCharged ? meter.served : undefined
  const drawn = served !== undefined && usesImageTool(usage) ? { ...served, imageModel: meter.imageModel } : undefined
  const images = drawn && usedImageTool(classes?.images, drawn, (...model) => prices.named(...model))
  const price = request.price && servedPrice(request.price, classes, meter.service, images)
  const { origin, bill: billed } =
    isCharged && price !== undefined ? rate(usage, price, discount) : { origin: 0n, bill: 0n }
  const isSubscription = request.kind === 'subscription'
  const bill = isSubscription ? origin : billed
  const flows = isSubscription ? plans.flowsOf(origin, penalty) : 0n
  const payment = wallet?.paymentOf(hold.amount, bill)
  const costPrice = served && prices.cost(served.provider, served.model)
  const imagesCost = drawn && imageTool(drawn.provider, images?.model ?? '', (...model) => prices.cost(...model))
  const cost = costPrice && rate(usage, servedPrice(costPrice, classes, meter.service, imagesCost), 0).bill
  return {
    record: recordOf(open, price, { usage, estimation, disputed }, bill, flows),
    transfers: chargesOf(accountId, payment, meter.served?.provider ?? null, cost),
    payment,
    bill,
    flows,
    dispute: disputed && disputeText(request.id, served?.provider, disputed, usage),
  }
}

/**
 * A settlement in memory: `apply` ends the holds, pays the bill and gives what the store has to write; `revert` undoes
 * that, for a settlement that the store did not take.
 */
export class Settlement {
  readonly #open: OpenGeneration
  readonly #terms: SettlementTerms
  readonly #funds: Funds

  constructor(open: OpenGeneration, terms: SettlementTerms, funds: Funds) {
    this.#open = open
    this.#terms = terms
    this.#funds = funds
  }

  apply(): Closing {
    const { hold, writtenAtMs } = this.#open
    const { record, transfers, payment, bill, flows } = this.#terms
    const { wallet, quota, budgets } = this.#funds
    if (payment !== undefined) wallet!.settle(hold.amount, payment)
    return {
      record,
      transfers,
      windows: hold.quota === undefined ? [] : quota!.settle(hold.quota, flows),
      spend: hold.budget === undefined ? undefined : budgets.settle(hold.budget, bill),
      wasOpen: writtenAtMs !== undefined,
    }
  }

  revert(): void {
    const { hold } = this.#open
    const { payment, bill, flows } = this.#terms
    const { wallet, quota, budgets } = this.#funds
    if (payment !== undefined) wallet!.revert(hold.amount, payment)
    if (hold.quota !== undefined) quota!.revert(hold.quota, flows)
    if (hold.budget !== undefined) budgets.revert(hold.budget, bill)
  }

  /** Records that the store has the payment. */
  markStored(): void {
    const { payment } = this.#terms
    if (payment !== undefined) this.#funds.wallet!.markStored(payment)
  }
}

/**
 * The attempts for the record; null for a single good one, of the model that its name says. One without a provider says
 * why none was asked.
 */
function attemptsOf({ attempts, unasked }: Pick<Meter, 'attempts' | 'unasked'>, requested: string): string | null {
  const isShown =
    attempts.length > 1 ||
    attempts.some(
      ({ provider, model, error, credential, missedCacheTokens }) =>
        (error ?? credential ?? missedCacheTokens) !== undefined ||
        (model !== undefined && (modelNamed(requested, provider) ?? model) !== model),
    )
  const shown = isShown ? attempts : unasked && [{ ...unasked, milliseconds: 0 }]
  return shown === undefined ? null : JSON.stringify(shown, RECORDED_ATTEMPT as unknown as string[])
}

function recordOf(
  { request, hold, meter }: OpenGeneration,
  price: Price | undefined,
  { usage, estimation, disputed }: ChargedUsage & { disputed: Partial<Usage> | undefined },
  bill: Nano,
  flows: bigint,
): GenerationRecord {
  const { id, accountId, keyId, kind, api, model, createdAt, streamed, discount } = request
  const { attempts, recordedFinish, served, times, losses } = meter
  const outcome = meter.outcome!
  return {
    id,
    accountId,
    keyId,
    kind,
    api,
    model,
    createdAt,
    streamed,
    discount,
    usage,
    estimated: estimation !== undefined,
    estimation: estimation ?? null,
    disputed: disputed === undefined ? null : JSON.stringify(disputed),
    bill,
    flows,
    ...times,
    provider: served?.provider ?? attempts.at(-1)?.provider ?? null,
    client: request.client ?? null,
    finish: recordedFinish ?? outcome,
    ending: outcome,
    retries: Math.max(0, attempts.length - 1),
    attempts: attemptsOf(meter, model),
    translation: losses.length === 0 ? null : lossesHeader(losses),
    price: price === undefined ? null : storedPrice(price),
    held: hold.amount,
  }
}
