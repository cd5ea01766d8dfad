import { plan } from '../config/account-settings.ts'
import { model } from '../config/model-settings.ts'
import { provider } from '../config/provider-settings.ts'
import { VARIABLE } from '../config/shape.ts'
import * as accounts from '../endpoints/management/accounts.ts'
import * as capture from '../endpoints/management/capture.ts'
import * as keys from '../endpoints/management/keys.ts'
import * as playground from '../endpoints/management/playground.ts'
import * as providerKeys from '../endpoints/management/provider-keys.ts'
import { managementRoutes } from '../endpoints/management/routes.ts'
import * as session from '../endpoints/management/session.ts'
import * as users from '../endpoints/management/users.ts'
import { isObject } from '../json/parse.ts'
import answers from './answers.json'
import {
  anything,
  CODES,
  flag,
  listOf,
  nullable,
  object,
  oneOf,
  type Operation,
  reference,
  type Schema,
  text,
  whole,
} from './operation.ts'

/** The management API: bodies by the shapes that read them, answers by the types of what its handlers return. */

export const managementSchemas: Record<string, Schema> = answers

type Described = {
  summary: string
  /** Parameters that others have in another form. */
  query?: Readonly<Record<string, Schema>>
  body?: { schema: Schema }
  answer?: Schema
  status?: number
  also?: number
  type?: string
  otherTypes?: readonly string[]
}

const one = (name: keyof typeof answers): Schema => reference(name)
const all = (name: keyof typeof answers): Schema =>
  object({ '!data': listOf(reference(name)), '!next': nullable(text), '!scanned_to': nullable(text) })

/** The query parameters that are no texts, by their names in the rows of the routes. */
const PARAMETERS: Readonly<Record<string, Schema>> = {
  limit: { type: 'integer', minimum: 1, maximum: 200 },
  revoked: flag,
  on: flag,
  open: flag,
  streamed: flag,
  lossy: flag,
  retried: flag,
  estimated: flag,
  min_first_token_ms: whole,
  min_total_ms: whole,
  min_tokens: whole,
  top: whole,
  bucket: oneOf('minute', 'hour', 'day', 'week', 'month', 'none'),
}

/** By method and path below `/v1/management`. */
const DESCRIBED: Readonly<Record<string, Described>> = {
  'GET /metrics': { summary: 'Metrics for Prometheus', type: 'text/plain', answer: text },
  'POST /session/preview': { summary: 'The kind of a link', body: session.PREVIEW, answer: one('LinkPreview') },
  'POST /session': { summary: 'Sign in', body: session.SIGN_IN, answer: one('SessionAnswer'), status: 201 },
  'GET /session': { summary: 'Who is signed in', answer: one('SessionAnswer') },
  'DELETE /session': { summary: 'Sign out', status: 204 },

  'GET /keys': { summary: 'Keys', answer: all('KeyAnswer') },
  'POST /keys': { summary: 'Create a key', body: keys.CREATE, answer: one('NewKeyAnswer'), status: 201 },
  'GET /keys/{id}': { summary: 'A key', answer: one('KeyAnswer') },
  'PATCH /keys/{id}': { summary: 'Change a key', body: keys.CHANGE, answer: one('KeyAnswer') },
  'DELETE /keys/{id}': { summary: 'Revoke a key', status: 204 },
  'POST /keys/{id}/rotate': {
    summary: 'Replace a key by a new one',
    body: keys.ROTATE,
    answer: one('NewKeyAnswer'),
    status: 201,
  },

  'GET /accounts': { summary: 'Accounts', answer: all('AccountAnswer') },
  'POST /accounts': { summary: 'Create an account', body: accounts.CREATE, answer: one('AccountAnswer'), status: 201 },
  'GET /accounts/{id}': { summary: 'An account', answer: one('AccountAnswer') },
  'PATCH /accounts/{id}': { summary: 'Change an account', body: accounts.CHANGE, answer: one('AccountAnswer') },
  'POST /accounts/{id}/credits': {
    summary: 'Add credit',
    body: accounts.CREDIT,
    answer: one('CreditAnswer'),
    status: 201,
    also: 200,
  },

  'DELETE /accounts/{id}/bodies': { summary: 'Delete all bodies of an account', status: 204 },

  'GET /users': { summary: 'People', answer: all('UserAnswer') },
  'POST /users': { summary: 'Invite a user', body: users.CREATE, answer: object({}), status: 201 },
  'GET /users/{id}': { summary: 'A person', answer: one('UserAnswer') },
  'PATCH /users/{id}': { summary: 'Change a person', body: users.CHANGE, answer: one('UserAnswer') },
  'DELETE /users/{id}': { summary: 'Remove a person', status: 204 },
  'POST /users/{id}/links': { summary: 'A link to sign in', answer: one('NewLinkAnswer'), status: 201 },
  'GET /users/{id}/sessions': { summary: 'Sessions of a person', answer: all('UserSessionAnswer') },
  'DELETE /users/{id}/sessions': { summary: 'End all sessions', status: 204 },
  'DELETE /users/{id}/sessions/{sid}': { summary: 'End a session', status: 204 },
  'PUT /users/{id}/password': { summary: 'Set a password', body: users.PASSWORD, status: 204 },

  'GET /requests': { summary: 'Requests', answer: all('RequestAnswer') },
  'GET /requests/stream': {
    summary: 'Requests as they begin and end',
    type: 'text/event-stream',
    answer: text,
  },
  'GET /requests/export': {
    summary: 'All requests, as a file',
    query: { format: oneOf('csv', 'jsonl') },
    type: 'text/csv',
    otherTypes: ['application/jsonl'],
    answer: text,
  },
  'GET /requests/{id}': { summary: 'A request', answer: one('RequestDetailAnswer') },
  'GET /requests/{id}/bodies': { summary: 'What was sent and received', answer: one('BodiesAnswer') },
  'GET /requests/{id}/bodies/{part}': { summary: 'The text of one body', type: 'text/plain', answer: text },
  'DELETE /requests/{id}/bodies': { summary: 'Delete the bodies of a request', status: 204 },
  'GET /usage': {
    summary: 'Sums over a range',
    query: { format: oneOf('json', 'csv') },
    answer: one('UsageAnswer'),
    otherTypes: ['text/csv'],
  },
  'GET /speed': {
    summary: 'Percentiles of first tokens and tokens a second',
    answer: one('SpeedAnswer'),
  },
  'GET /book/balances': { summary: 'Balances of the book', answer: all('BalanceAnswer') },
  'GET /book/transfers': {
    summary: 'Transfers of the book',
    answer: all('TransferAnswer'),
  },
  'POST /book/audit': { summary: 'Begin an audit of the book', answer: one('AuditAnswer'), status: 202 },
  'GET /book/audit/{id}': { summary: 'An audit', answer: one('AuditAnswer') },
  'GET /predictions': { summary: 'Jobs that are predictions', answer: all('JobAnswer') },
  'GET /jobs': { summary: 'Predictions, and responses in the background', answer: all('JobAnswer') },
  'GET /jobs/quota': { summary: 'Predictions that run and wait, and how many may run', answer: one('JobQuotaAnswer') },
  'GET /jobs/{id}/files': { summary: 'Files in the output of a job', answer: all('JobFileAnswer') },
  'POST /jobs/{id}/cancel': { summary: 'Cancel a job', status: 204 },
  'GET /files': { summary: 'Files', answer: all('FileAnswer') },
  'DELETE /files/{id}': { summary: 'Delete a file', status: 204 },
  'GET /changes': {
    summary: 'The change log',
    answer: all('ChangeAnswer'),
  },
  'POST /changes/audit': { summary: 'Check the change log', answer: one('ChangesAuditAnswer') },
  'GET /system': { summary: 'The server', answer: one('SystemAnswer') },
  'GET /settings': { summary: 'Settings in force', answer: one('SettingsAnswer') },
  'PATCH /settings': {
    summary: 'Change settings at run time: members as in sluice.yaml, null for the default',
    body: { schema: { type: 'object', additionalProperties: true } },
    answer: one('SettingsAnswer'),
  },
  'GET /settings/capture': { summary: 'Which bodies are captured', answer: one('InstallationCaptureAnswer') },
  'PATCH /settings/capture': {
    summary: 'Capture bodies of all keys and accounts without a switch of their own',
    body: capture.CHANGE,
    answer: one('InstallationCaptureAnswer'),
  },
  'POST /settings/reload': { summary: 'Read sluice.yaml again', answer: one('ReloadAnswer') },
  'GET /settings/export.yaml': {
    summary: 'File and console as one sluice.yaml, with variables for secrets',
    type: 'application/yaml',
    answer: anything,
  },
  'GET /providers': { summary: 'Providers', answer: all('ProviderAnswer') },
  'GET /providers/{id}': { summary: 'A provider', answer: one('ProviderAnswer') },
  'GET /providers/{id}/health': { summary: 'The last hour of a provider', answer: one('ProviderHealthAnswer') },
  'GET /health/providers': { summary: 'The last hour of each provider', answer: all('ProviderHealthAnswer') },
  'PUT /providers/{id}': {
    summary: 'Set up a provider: the value of providers.<id> in sluice.yaml',
    body: provider,
    answer: one('ProviderAnswer'),
  },
  'PATCH /providers/{id}': {
    summary: 'Change a provider that was set up here: null removes a member',
    body: { schema: { type: 'object', additionalProperties: true } },
    answer: one('ProviderAnswer'),
  },
  'DELETE /providers/{id}': { summary: 'Remove a provider that was set up here, and its key', status: 204 },
  'PUT /providers/{id}/key': {
    summary: 'Set the key of a built-in provider',
    body: providerKeys.KEY,
    status: 204,
  },
  'DELETE /providers/{id}/key': { summary: 'Remove a key that was set here', status: 204 },
  'POST /providers/{id}/test': {
    summary: 'Make one small call of a provider',
    body: providerKeys.TEST,
    answer: one('ProviderTestAnswer'),
  },
  'GET /models': {
    summary: 'Models, also those that are off',
    answer: all('ModelAnswer'),
  },
  'GET /models/{name}': { summary: 'A model', answer: one('ModelAnswer') },
  'PUT /models/{name}': {
    summary: 'Set up a model: the value of models.<name> in sluice.yaml',
    body: model,
    answer: one('ModelAnswer'),
  },
  'DELETE /models/{name}': { summary: 'Remove a model that was set up here', status: 204 },
  'GET /plans/{tier}': { summary: 'A plan', answer: one('PlanAnswer') },
  'PUT /plans/{tier}': {
    summary: 'Set up a plan: the value of plans.tiers.<tier> in sluice.yaml',
    body: plan,
    answer: one('PlanAnswer'),
  },
  'DELETE /plans/{tier}': { summary: 'Remove a plan that was set up here', status: 204 },
  'GET /plans': { summary: 'Plans', answer: all('PlanAnswer') },
  'POST /route': {
    summary: 'The endpoints that a request would be sent to now',
    body: { schema: object({ model: text, protocol: text, body: {}, headers: {} }) },
    answer: one('RouteAnswer'),
  },
  'POST /explain': {
    summary: 'A request as it would be sent to providers',
    body: { schema: object({ protocol: text, model: text, stream: flag, '!body': {} }) },
    answer: one('ExplainAnswer'),
  },
  'POST /playground/keys': {
    summary: 'A key for at most an hour, the same for half an hour',
    body: playground.CREATE,
    answer: one('PlaygroundKeyAnswer'),
    status: 201,
    also: 200,
  },
}

const BASE = '/v1/management'

const nameOf = (method: string, path: string): string =>
  `${method} ${path.startsWith(BASE) ? path.slice(BASE.length) : path}`

/** A schema of the file without the variables that may take the place of its values: bodies are refused with them. */
function withoutVariables(schema: Schema): Schema {
  const { anyOf, ...rest } = schema
  const plain = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, inside(value)]))
  if (!Array.isArray(anyOf)) return plain
  const kept = anyOf.filter((one) => one !== VARIABLE).map(inside)
  return kept.length === 1 ? { ...(kept[0] as Schema), ...plain } : { anyOf: kept, ...plain }
}

const inside = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(inside) : isObject(value) ? withoutVariables(value) : value

export const management: readonly Operation[] = managementRoutes.map(
  ({ method, template, action, query: names = [], keys: _ }) => {
    const name = nameOf(method, template)
    const {
      summary,
      query = {},
      body,
      answer,
      status = 200,
      also,
      type,
      otherTypes = [],
    } = DESCRIBED[name] ?? { summary: name }
    const isChange = method !== 'GET' && method !== 'POST'
    return {
      method: method.toLowerCase() as Operation['method'],
      path: template,
      tag: 'Management',
      summary,
      security: action === 'public' ? 'none' : 'management',
      errors: 'OpenAIError',
      codes:
        isChange || method === 'POST'
          ? [...CODES.management, 'conflict', 'set_in_file', 'precondition_required']
          : CODES.management,
      ...(names.length === 0
        ? {}
        : { query: Object.fromEntries(names.map((one) => [one, query[one] ?? PARAMETERS[one] ?? text])) }),
      ...(body === undefined ? {} : { body: { type: 'application/json', schema: withoutVariables(body.schema) } }),
      answer: {
        status,
        description: summary,
        ...(answer === undefined ? {} : { schema: answer }),
        ...(type === undefined ? {} : { type }),
        otherTypes,
        ...(also === undefined ? {} : { also }),
      },
    }
  },
)

/** Rows of the management API without words here, and words without a row. */
export function unmatched(): string[] {
  const rows = new Set(management.map(({ method, path }) => nameOf(method.toUpperCase(), path)))
  return [...rows.symmetricDifference(new Set(Object.keys(DESCRIBED)))]
}
