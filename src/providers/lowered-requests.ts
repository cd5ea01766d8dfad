import { bodyText } from '../http/encode-request.ts'
import { applyEdits, type Edit } from '../json/edit.ts'
import { isObject } from '../json/parse.ts'
import { protocols } from '../protocols/index.ts'
import type { RequestContext } from '../protocols/protocol.ts'
import { bodyAsSent, settingPath } from '../protocols/request-paths.ts'
import type { PreparedRequest, RequestWriter } from './attempt.ts'
import type { Endpoint } from './catalogue.ts'

/** Requests with a lower output limit than their client's, because no more can be paid; that is reported as a loss. */
export class LoweredRequests implements RequestWriter {
  readonly context: RequestContext
  readonly #requests: RequestWriter
  readonly #limit: number

  constructor(requests: RequestWriter, limit: number) {
    this.context = requests.context
    this.#requests = requests
    this.#limit = limit
  }

  take(endpoint: Endpoint): PreparedRequest | Promise<PreparedRequest> {
    const taken = this.#requests.take(endpoint)
    return taken instanceof Promise
      ? taken.then((prepared) => this.#lowered(prepared, endpoint))
      : this.#lowered(taken, endpoint)
  }

  #lowered(prepared: PreparedRequest, { protocol, target: { quirks } }: Endpoint): PreparedRequest {
    const text = bodyText(prepared.body)
    const body: unknown = JSON.parse(text)
    const paths = limitPaths(protocol).map((one) => one.split('.'))
    const present = paths.filter((one) => valueAt(body, one) !== undefined)
    const own = paths.filter(([name]) => name === quirks.maxTokensField)
    const [chosen] = own.length > 0 ? own : paths.slice(-1)
    const changed = present.length > 0 ? present.filter((one) => !this.#isWithin(valueAt(body, one))) : [chosen!]
    // A limit that the provider requires, and the client did not set, may be less than can be paid.
    if (changed.length === 0) return prepared
    prepared.losses.add('limit_lowered', this.#path(), `lowered to ${this.#limit.toLocaleString('en')}: balance`)
    return {
      ...prepared,
      body: applyEdits(
        text,
        changed.map((one) => insertion(body, one, this.#limit)),
      ),
    }
  }

  #isWithin(limit: unknown): boolean {
    return typeof limit === 'number' && limit > 0 && limit <= this.#limit
  }

  /** The path of the limit in the client's request. */
  #path(): string {
    const { request, rawRequest, settings = rawRequest } = this.context
    return settingPath(protocols[request.protocol].serve.paths, bodyAsSent(settings), 'maxOutputTokens')
  }
}

const limitPaths = (protocol: Endpoint['protocol']): readonly string[] =>
  protocols[protocol].serve.paths.settings.maxOutputTokens ?? []

const valueAt = (value: unknown, [name, ...inside]: readonly string[]): unknown =>
  name === undefined ? value : isObject(value) && Object.hasOwn(value, name) ? valueAt(value[name], inside) : undefined

/** The edit that writes a number at a path, with the object that it is in where that is missing. */
function insertion(body: unknown, path: readonly string[], limit: number): Edit {
  const [parent, name] = path
  return name === undefined || valueAt(body, [parent!]) !== undefined
    ? { path, op: 'insert', value: String(limit) }
    : { path: [parent!], op: 'insert', value: JSON.stringify({ [name]: limit }) }
}
