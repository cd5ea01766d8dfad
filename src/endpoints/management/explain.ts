import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { parseExact } from '../../json/exact.ts'
import { modelLimitOf, requestedImageTool } from '../../ledger/admission.ts'
import { worstCase } from '../../ledger/estimate.ts'
import { withImageTool } from '../../ledger/image-tool.ts'
import { rateWorst } from '../../ledger/rating.ts'
import { requestedImageModel } from '../../protocols/hosted-tools.ts'
import { protocols } from '../../protocols/index.ts'
import { explainedRequest, explainRequest, type Explanation } from '../../providers/explain.ts'
import { answer, usd } from './answer.ts'
import { bodyTextOf } from './body.ts'
import type { ManagementRequest } from './route.ts'

/**
 * The output of `sluice explain`. `hold_usd`: the most that the request could cost at list prices, if there are any.
 * `as_named`: members that refer to files, stored conversations or responses, which are not inserted here.
 */
export type ExplainAnswer = Omit<Explanation, 'asNamed'> & { hold_usd: string | null; as_named: string[] }

const MEMBERS = ['protocol', 'model', 'stream', 'body']
const BODY_BYTES = 2 ** 20

/** `POST /v1/management/explain`: a request as each endpoint would get it, without sending it. */
export async function explain(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const { body, protocol, model, stream } = readGiven(await bodyTextOf(inbound, BODY_BYTES))
  const text = JSON.stringify(body)
  const requested = explainedRequest(text, { protocol, model, stream })
  if (requested === undefined) throw invalid('model', 'is required, here or in body')
  const { request, candidates, asNamed, ...explained } = explainRequest(app.catalogue, app.config, requested)
  const price = app.prices.of(app.catalogue.named(requested.model).model, candidates)
  const worst = worstCase(
    request,
    Buffer.byteLength(text),
    modelLimitOf(candidates),
    candidates.map(({ target }) => target.capabilities),
  )
  const classes = requestedImageModel(request, candidates, () => '')
  const images = requestedImageTool(app.prices, candidates, classes) ?? {}
  const answered: ExplainAnswer = {
    ...explained,
    hold_usd: price === undefined ? null : usd(rateWorst(worst, withImageTool(price, images), 0).bill),
    as_named: asNamed,
  }
  return answer(answered)
}

type Given = {
  body: Record<string, unknown>
  protocol: keyof typeof protocols | undefined
  model: string | undefined
  stream: boolean
}

/** The numbers of `body` keep their spelling, as those of a request do. */
function readGiven(text: string): Given {
  const given = parseExact(text)
  if (!isObject(given)) throw invalid('body', 'must be a JSON object')
  const unknown = Object.keys(given).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) throw invalid(unknown.slice(0, 80), `is unknown; known members: ${MEMBERS.join(', ')}`)
  const { body, protocol, model, stream = false } = given
  if (!isObject(body)) throw invalid('body', 'is required: the body of a request')
  const known = Object.values(protocols).find(({ name, alias }) => name === protocol || alias === protocol)
  if (protocol !== undefined && known === undefined)
    throw invalid('protocol', `must be one of ${Object.keys(protocols).join(', ')}`)
  if (model !== undefined && typeof model !== 'string') throw invalid('model', 'must be a string')
  if (typeof stream !== 'boolean') throw invalid('stream', 'must be true or false')
  return { body, protocol: known?.name, model, stream }
}
