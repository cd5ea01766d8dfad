import { GatewayError, invalid } from '../error.ts'
import type { GenerationRequest, Located } from '../generation/request.ts'
import { refusalOf } from './fields.ts'
import { LOSS_CODES, type LossCode, type LossEffect } from './loss-codes.ts'
import { withStepsAsText } from './hosted-tools.ts'
import type { RawRequest, Target } from './protocol.ts'
import {
  bodyAsSent,
  type ElementField,
  fieldPath,
  type RequestPaths,
  settingPath,
  type SettingName,
} from './request-paths.ts'
import type { SchemaCache } from './schema/cache.ts'
import { SchemaBudget } from './schema/schema.ts'
import { withoutEmptyStops } from './stop-sequences.ts'
import type { Undo } from './transforms.ts'

/**
 * One thing that a translation lost. `path`: where the client wrote it, or `response.` and the field that a response
 * could not carry.
 */
export type Loss = { code: LossCode; path: string; effect: LossEffect; reason: string }

/** A provider that invents kinds of content without end must not fill the memory. */
const LOSSES_MAX = 1_000

/** The losses of one generation, each once, in the order in which they were found. */
export class LossReport {
  readonly losses: Loss[] = []
  /** Number of reports, repeated ones included. */
  reported = 0
  readonly #known = new Set<string>()

  add(code: LossCode, path: string, reason?: string): void {
    this.reported++
    if (this.losses.length >= LOSSES_MAX) return
    const [effect, usual] = LOSS_CODES[code]
    const loss: Loss = { code, path, effect, reason: reason ?? usual }
    const key = `${code}\n${path}\n${loss.reason}`
    if (this.#known.has(key)) return
    this.#known.add(key)
    this.losses.push(loss)
  }
}

/** The user's text before a conversation that the assistant begins, where a provider requires that the user does. */
export const BEGUN_BY_ASSISTANT = '(The conversation begins with the assistant.)'

/** The translation of one request for an endpoint with another protocol than its client. */
export class Translation {
  readonly request: GenerationRequest
  readonly target: Target
  readonly report = new LossReport()
  readonly transforms: Undo[] = []
  /** Work that the schemas of this request may still cost. */
  readonly schemaBudget = new SchemaBudget()
  readonly schemaCache: SchemaCache
  /** An output limit that the provider requires and nothing else determines. */
  assumedLimit: number | undefined
  /** Headers that the written request needs besides those of every request. */
  readonly headers: Record<string, string> = {}
  readonly #body: Record<string, unknown>
  readonly #paths: RequestPaths

  /**
   * `paths`: of the protocol that the request was read from. Throws the refusal of a value that only that protocol can
   * represent.
   */
  constructor(
    request: GenerationRequest,
    target: Target,
    rawRequest: Pick<RawRequest, 'body' | 'inserted'>,
    paths: RequestPaths,
    schemaCache: SchemaCache,
  ) {
    const refusal = refusalOf(request)
    if (refusal !== undefined) throw refusal
    this.target = target
    this.#body = bodyAsSent(rawRequest)
    this.#paths = paths
    this.schemaCache = schemaCache
    const withTexts = withStepsAsText(request, (part) =>
      this.lose('content_as_text', this.at(part), 'steps of a tool of another provider: sent as text'),
    )
    this.request = withoutEmptyStops(withTexts, () =>
      this.lose('unsupported_by_provider', this.setting('stop'), 'an empty stop sequence ends no response'),
    )
  }

  /** Reports a loss; `reason` replaces the default one of the code. */
  lose(code: LossCode, path: string, reason?: string): void {
    this.report.add(code, path, reason)
  }

  /** The path of a setting in the client's request. */
  setting(name: SettingName): string {
    return settingPath(this.#paths, this.#body, name)
  }

  /** The path of an element, or of a field of it, in the client's request. */
  at(element: Located, field?: ElementField): string {
    return field === undefined
      ? (element.path ?? this.setting('conversation'))
      : fieldPath(this.#paths, this.#body, element, field)
  }

  /** Has a transform undo on each response what was changed in the request. */
  undo(change: Undo): void {
    this.transforms.push(change)
  }

  /** The 400 of a value that the provider's protocol cannot represent. */
  refusal(path: string, problem: string): GatewayError {
    return new GatewayError('unsupported_parameter', `${path}: ${problem}`, { param: path })
  }

  /** The 400 of a plain enum response (text/x.enum): the client could not compare the value in any other form. */
  plainEnumRefusal(): GatewayError {
    return this.refusal(
      this.setting('outputFormat'),
      'the provider of this model cannot respond with a plain enum value (text/x.enum); use application/json',
    )
  }

  /** The 400 of a conversation without content, for a provider that requires some. */
  emptyConversation(): GatewayError {
    return invalid(
      this.setting('conversation'),
      'must have at least one message with content, since the provider of this model requires one',
    )
  }
}
