import { GOOGLE_MODELS } from './generations.ts'
import {
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

/** The operations on what is stored or listed: responses, models, predictions, files, records; and the probes. */

export const objectSchemas: Record<string, Schema> = {
  Model: object({
    '!id': text,
    '!object': { const: 'model' },
    '!created': whole,
    '!owned_by': text,
    display_name: text,
    context_length: nullable(whole),
    max_output_tokens: nullable(whole),
    pricings: object({}),
    protocols: listOf(text),
  }),
  GoogleModel: object({ '!name': text, '!displayName': text, supportedGenerationMethods: listOf(text) }),
  PublisherModel: object({ '!name': text, '!displayName': text }),
  File: object({
    '!id': text,
    '!object': { const: 'file' },
    '!bytes': whole,
    '!created_at': whole,
    '!filename': text,
    '!purpose': text,
  }),
  PredictionRequest: object({
    model: text,
    version: text,
    '!input': object({}),
    stream: flag,
    webhook: text,
    webhook_events_filter: listOf(oneOf('start', 'output', 'logs', 'completed')),
  }),
  Prediction: object({
    '!id': text,
    '!model': text,
    '!status': oneOf('starting', 'processing', 'succeeded', 'failed', 'canceled'),
    '!input': {},
    output: {},
    error: {},
    '!created_at': text,
    '!urls': object({ '!get': text, '!cancel': text }),
  }),
  Generation: object({ '!generationId': text, '!model': text }),
}

const page = (items: string): Schema => object({ '!data': listOf(reference(items)) })

type Reading = Pick<Operation, 'path' | 'summary'> & Partial<Operation> & { schema?: Schema }

const reading =
  (tag: string, defaults: Partial<Operation> = {}) =>
  ({ schema, ...rest }: Reading): Operation => ({
    method: 'get',
    tag,
    security: 'key',
    errors: 'OpenAIError',
    codes: CODES.read,
    answer: { description: rest.summary, ...(schema === undefined ? {} : { schema }) },
    ...defaults,
    ...rest,
  })

const PROVIDER = { codes: CODES.generation, hasProviderErrors: true } as const
const response = reading('Responses', PROVIDER)
const model = reading('Models')
const prediction = reading('Predictions')
const file = reading('Files')
const record = reading('Records')
const probe = reading('Server', { security: 'none', codes: [] })

const PAGE = { limit: whole, after: text }
const RESPONSE = reference('Response')
const PREDICTION = reference('Prediction')
const FILE = reference('File')
const DELETED = object({ '!id': text, deleted: flag })

const responses = [
  response({ path: '/v1/responses/{id}', summary: 'A stored response', schema: RESPONSE }),
  response({ method: 'post', path: '/v1/responses/{id}/cancel', summary: 'Cancel a response', schema: RESPONSE }),
  response({ method: 'delete', path: '/v1/responses/{id}', summary: 'Delete a stored response', schema: DELETED }),
  response({
    path: '/v1/responses/{id}/input_items',
    summary: 'The input of a stored response',
    query: { ...PAGE, order: oneOf('asc', 'desc') },
    schema: object({ '!object': { const: 'list' }, '!data': listOf(object({})) }),
  }),
  response({
    path: '/v1/responses',
    summary: 'A WebSocket of this path, which is refused',
    codes: [...CODES.read, 'upgrade_required'],
  }),
]

const models = [
  model({ path: '/v1/models', summary: 'The models that the key may use', schema: page('Model') }),
  model({ path: '/v1/models/{model}', summary: 'A model', schema: reference('Model') }),
  model({
    path: '/v1beta/models',
    summary: 'The same as Google lists them',
    errors: 'GoogleError',
    schema: object({ '!models': listOf(reference('GoogleModel')) }),
  }),
  model({
    path: GOOGLE_MODELS[0],
    summary: 'A model as Google shows it',
    errors: 'GoogleError',
    schema: reference('GoogleModel'),
  }),
  model({
    path: '/v1beta1/publishers/{publisher}/models',
    summary: 'The models of a publisher as Vertex AI lists them',
    errors: 'GoogleError',
    schema: object({ '!publisherModels': listOf(reference('PublisherModel')) }),
  }),
  model({
    path: GOOGLE_MODELS[1],
    summary: 'A model as Vertex AI shows it',
    errors: 'GoogleError',
    schema: reference('PublisherModel'),
  }),
]

const predicting = {
  method: 'post',
  codes: CODES.generation,
  body: {
    type: 'application/json',
    schema: reference('PredictionRequest'),
    example: { model: 'sandbox/chat', input: { prompt: 'Hello' } },
  },
  answer: { schema: PREDICTION, description: 'The prediction, which may still be running' },
} as const

const predictions = [
  prediction({ path: '/v1/predictions', summary: 'Create a prediction', ...predicting }),
  prediction({
    path: '/v1/models/{model}/predictions',
    summary: 'Create a prediction with a model',
    ...predicting,
    body: { ...predicting.body, example: { input: { prompt: 'Hello' } } },
  }),
  prediction({
    path: '/v1/predictions',
    summary: 'The predictions of the account',
    query: { cursor: text },
    schema: object({ '!results': listOf(PREDICTION), '!next': nullable(text), '!previous': nullable(text) }),
  }),
  prediction({ path: '/v1/predictions/{id}', summary: 'A prediction', schema: PREDICTION }),
  prediction({
    method: 'post',
    path: '/v1/predictions/{id}/cancel',
    summary: 'Cancel a prediction',
    schema: PREDICTION,
  }),
  prediction({
    path: '/v1/streams/{token}',
    summary: 'The events of a prediction; its URL is the permission',
    security: 'none',
    codes: CODES.public,
    answer: { type: 'text/event-stream', schema: text, description: 'Events' },
  }),
  prediction({
    path: '/v1/webhooks/default/secret',
    summary: 'The secret with which webhooks are signed',
    schema: object({ '!key': text }),
  }),
]

const binary = { type: '*/*', schema: { type: 'string', format: 'binary' }, description: 'The bytes' } as const

const files = [
  file({
    method: 'post',
    path: '/v1/files',
    summary: 'Upload a file',
    codes: CODES.write,
    body: {
      type: 'multipart/form-data',
      schema: object({ '!file': { type: 'string', format: 'binary' }, purpose: text }),
    },
    schema: FILE,
  }),
  file({ path: '/v1/files', summary: 'The files of the account', query: PAGE, schema: page('File') }),
  file({ path: '/v1/files/{id}', summary: 'A file', schema: FILE }),
  file({ path: '/v1/files/{id}/content', summary: 'The bytes of a file', answer: binary }),
  file({ method: 'delete', path: '/v1/files/{id}', summary: 'Delete a file', schema: DELETED }),
  file({
    path: '/v1/outputs/{token}',
    summary: 'A generated image or other output; its URL is the permission',
    security: 'none',
    codes: CODES.public,
    answer: binary,
  }),
]

const records = [
  record({
    path: '/v1/management/generation',
    summary: 'The record of a generation',
    query: { id: text },
    schema: reference('Generation'),
  }),
  record({
    path: '/v1/generation',
    summary: 'The same at its former path',
    query: { id: text },
    schema: reference('Generation'),
  }),
  record({ path: '/v1/management/payg/balance', summary: 'The balance of the account', schema: object({}) }),
  record({ path: '/v1/management/subscription/detail', summary: 'Plan and quota windows', schema: object({}) }),
]

const plain = { type: 'text/plain', schema: text, description: 'One line' } as const

const server = [
  probe({ path: '/livez', summary: 'The server runs', answer: plain }),
  probe({
    path: '/readyz',
    summary: 'The server accepts generations',
    codes: ['overloaded'],
    answer: plain,
  }),
  probe({ method: 'head', path: '/api/hello', summary: 'For Claude Code', answer: { description: 'Empty' } }),
  probe({ path: '/openapi.json', summary: 'This document', schema: object({ '!openapi': text }) }),
]

export const objects: readonly Operation[] = [...responses, ...models, ...predictions, ...files, ...records, ...server]
