import type { KeyKind } from '../../src/config/terms.ts'

/** A valid request to each route, and the keys that may send it. */

export const KINDS: KeyKind[] = ['pay-as-you-go', 'subscription', 'management']
const USERS: KeyKind[] = ['pay-as-you-go', 'subscription']

/**
 * A valid request to a route. `ids`: the requests with an id that belongs to an account, if the route has such an id.
 * `answers`: the status of a public route, if it is not 200.
 */
type Row = {
  path: string
  body?: object
  keys: KeyKind[] | 'public'
  answers?: number
  ids?: (id: string) => { path: string; body?: object }[]
}

export const turn = { messages: [{ role: 'user', content: 'Hello' }] }
const google = { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }
export const responses = (path: string): Row => ({
  path,
  body: { model: 'sandbox/responses', input: 'Hello' },
  keys: USERS,
  ids: (id) => [
    { path, body: { model: 'sandbox/responses', input: 'Hello', previous_response_id: id } },
    { path, body: { model: 'sandbox/responses', input: [{ type: 'item_reference', id }] } },
  ],
})
const inPath = (path: (id: string) => string): Row => ({
  path: path('resp_none'),
  keys: USERS,
  ids: (id) => [{ path: path(id) }],
})
const record = (path: string): Row => ({
  path: `${path}?id=none`,
  keys: KINDS,
  ids: (id) => [{ path: `${path}?id=${id}` }, { path: `${path}?generate_id=${id}` }],
})

/** A row for every route, by method, name and error format. A route without a row fails the first test. */
export const TABLE: Record<string, Row> = {
  ...Object.fromEntries(
    ['', '/relay'].flatMap(
      (prefix) =>
        [
          [
            `POST ${prefix}chat.completions chat.completions`,
            { path: `${prefix}/v1/chat/completions`, body: { model: 'sandbox/chat', ...turn }, keys: USERS },
          ],
          [`POST ${prefix}responses responses`, responses(`${prefix}/v1/responses`)],
          [`POST ${prefix}responses.compact responses`, responses(`${prefix}/v1/responses/compact`)],
          [
            `POST ${prefix}messages messages`,
            { path: `${prefix}/v1/messages`, body: { model: 'sandbox/messages', max_tokens: 9, ...turn }, keys: USERS },
          ],
          [
            `POST ${prefix}images images`,
            { path: `${prefix}/v1/images/generations`, body: { model: 'drawn', prompt: 'A lighthouse' }, keys: USERS },
          ],
          [
            `POST ${prefix}messages.count_tokens messages`,
            { path: `${prefix}/v1/messages/count_tokens`, body: { model: 'sandbox/messages', ...turn }, keys: USERS },
          ],
        ] as [string, Row][],
    ),
  ),
  'POST generateContent generateContent': {
    path: '/v1beta/models/sandbox/gemini:generateContent',
    body: google,
    keys: USERS,
  },
  'POST streamGenerateContent generateContent': {
    path: '/v1beta/models/sandbox/gemini:streamGenerateContent',
    body: google,
    keys: USERS,
  },
  'POST countTokens generateContent': { path: '/v1beta/models/sandbox/gemini:countTokens', body: google, keys: USERS },
  'POST responses.input_tokens responses': responses('/v1/responses/input_tokens'),
  'GET responses.upgrade responses': { path: '/v1/responses', keys: USERS },
  'GET responses.get responses': inPath((id) => `/v1/responses/${id}`),
  'POST responses.cancel responses': inPath((id) => `/v1/responses/${id}/cancel`),
  'DELETE responses.delete responses': inPath((id) => `/v1/responses/${id}`),
  'GET responses.input_items responses': inPath((id) => `/v1/responses/${id}/input_items`),
  'GET models client': { path: '/v1/models', keys: USERS },
  'GET models.get client': { path: '/v1/models/sandbox/chat', keys: USERS },
  'GET models generateContent': { path: '/v1beta/models', keys: USERS },
  'GET models.get generateContent': { path: '/v1beta/models/sandbox/gemini', keys: USERS },
  'GET models.published generateContent': { path: '/v1beta1/publishers/google/models', keys: USERS },
  'GET models.published.get generateContent': { path: '/v1beta1/publishers/sandbox/models/gemini', keys: USERS },
  'GET management.generation chat.completions': record('/v1/management/generation'),
  'GET generation chat.completions': record('/v1/generation'),
  'GET management.balance chat.completions': {
    path: '/v1/management/payg/balance',
    keys: ['management', 'pay-as-you-go'],
  },
  'GET management.subscription chat.completions': { path: '/v1/management/subscription/detail', keys: ['management'] },
  'POST predictions chat.completions': {
    path: '/v1/predictions',
    body: { model: 'sandbox/chat', input: { prompt: 'Hello' } },
    keys: USERS,
  },
  'POST models.predictions chat.completions': {
    path: '/v1/models/sandbox/chat/predictions',
    body: { input: { prompt: 'Hello' } },
    keys: USERS,
  },
  'GET predictions.list chat.completions': { path: '/v1/predictions', keys: USERS },
  'GET predictions.get chat.completions': inPath((id) => `/v1/predictions/${id}`),
  'POST predictions.cancel chat.completions': inPath((id) => `/v1/predictions/${id}/cancel`),
  'GET predictions.stream chat.completions': { path: '/v1/streams/none', keys: 'public', answers: 404 },
  'GET webhooks.secret chat.completions': { path: '/v1/webhooks/default/secret', keys: USERS },
  'POST files.create client': { path: '/v1/files', keys: USERS },
  'GET files client': { path: '/v1/files', keys: USERS },
  'GET files.get client': inPath((id) => `/v1/files/${id}`),
  'GET files.content client': inPath((id) => `/v1/files/${id}/content`),
  'DELETE files.delete client': inPath((id) => `/v1/files/${id}`),
  'GET outputs.get chat.completions': { path: '/v1/outputs/none', keys: 'public', answers: 404 },
  'HEAD hello messages': { path: '/api/hello', keys: 'public' },
  'GET console chat.completions': { path: '/console/assets/none.js', keys: 'public', answers: 404 },
  'GET livez chat.completions': { path: '/livez', keys: 'public' },
  'GET openapi chat.completions': { path: '/openapi.json', keys: 'public' },
  'GET readyz chat.completions': { path: '/readyz', keys: 'public' },
}
