import { bodyText } from '../http/encode-request.ts'
import { applyEdits, type Edit } from '../json/edit.ts'
import { isObject } from '../json/parse.ts'
import { protocols } from '../protocols/index.ts'
import type { RequestContext } from '../protocols/protocol.ts'
import { bodyAsSent, settingPath, type SettingName } from '../protocols/request-paths.ts'
import type { PreparedRequest, RequestWriter } from './attempt.ts'
import type { Endpoint } from './catalogue.ts'

/** `reason`: of the loss. `only`: the endpoint whose requests are lowered; undefined for all. */
type Lowering = { limit: number; reason: string; only?: Endpoint }

/** The part of a limit that reasoning may take where its budget has to be less than the limit. */
const REASONING_SHARE = 0.8

/** Requests with a lower output limit than they were written with; that is reported as a loss. */
export class LoweredRequests implements RequestWriter {
  readonly context: RequestContext
  readonly #requests: RequestWriter
  readonly #lowering: Lowering

  constructor(requests: RequestWriter, lowering: Lowering) {
    this.context = requests.context
    this.#requests = requests
    this.#lowering = lowering
  }

  take(endpoint: Endpoint): PreparedRequest | Promise<PreparedRequest> {
    const taken = this.#requests.take(endpoint)
    if (this.#lowering.only !== undefined && this.#lowering.only !== endpoint) return taken
    return taken instanceof Promise
      ? taken.then((prepared) => this.#lowered(prepared, endpoint))
      : this.#lowered(taken, endpoint)
  }

  #lowered(prepared: PreparedRequest, { protocol, target: { quirks } }: Endpoint): PreparedRequest {
    const { limit, reason } = this.#lowering
    const text = bodyText(prepared.body)
    const body: unknown = JSON.parse(text)
    const paths = pathsOf(protocol, 'maxOutputTokens')
    const present = paths.filter((one) => valueAt(body, one) !== undefined)
    const own = paths.filter(([name]) => name === quirks.maxTokensField)
    const [chosen] = own.length > 0 ? own : paths.slice(-1)
    const changed = present.length > 0 ? present.filter((one) => !this.#isWithin(valueAt(body, one))) : [chosen!]
    // A limit that the provider requires, and the client did not set, may be less than can be paid.
    if (changed.length === 0) return prepared
    prepared.losses.add('limit_lowered', this.#path('maxOutputTokens'), `lowered to ${number(limit)}: ${reason}`)
    const edits = changed.map((one) => insertion(body, one, limit))
    const budget = pathsOf(protocol, 'reasoning.budgetTokens').find((one) => Number(valueAt(body, one)) >= limit)
    if (budget !== undefined) {
      const lowered = Math.floor(limit * REASONING_SHARE)
      prepared.losses.add(
        'budget_adjusted',
        this.#path('reasoning'),
        `the output limit allows ${number(lowered)} tokens`,
      )
      edits.push(insertion(body, budget, lowered))
    }
    return {
      ...prepared,
      body: applyEdits(text, edits),
      assumedLimit: prepared.assumedLimit === undefined ? undefined : limit,
    }
  }

  #isWithin(limit: unknown): boolean {
    return typeof limit === 'number' && limit > 0 && limit <= this.#lowering.limit
  }

  /** The path of a setting in the client's request. */
  #path(setting: SettingName): string {
    const { request, rawRequest, settings = rawRequest } = this.context
    return settingPath(protocols[request.protocol].serve.paths, bodyAsSent(settings), setting)
  }
}

const number = (value: number): string => value.toLocaleString('en')

const pathsOf = (protocol: Endpoint['protocol'], setting: SettingName): readonly string[][] =>
  (protocols[protocol].serve.paths.settings[setting] ?? []).map((one) => one.split('.'))

const valueAt = (value: unknown, [name, ...inside]: readonly string[]): unknown =>
  name === undefined ? value : isObject(value) && Object.hasOwn(value, name) ? valueAt(value[name], inside) : undefined

/** The edit that writes a number at a path, with the object that it is in where that is missing. */
function insertion(body: unknown, path: readonly string[], limit: number): Edit {
  const [parent, name] = path
  return name === undefined || valueAt(body, [parent!]) !== undefined
    ? { path, op: 'insert', value: String(limit) }
    : { path: [parent!], op: 'insert', value: JSON.stringify({ [name]: limit }) }
}
