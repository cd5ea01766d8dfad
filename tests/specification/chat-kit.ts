import { openAiRefusal, post, without, type Json, type Surface } from './kit.ts'

export const USER = { role: 'user', content: 'Hello' }
export const PNG = 'data:image/png;base64,iVBORw0KGgo='

/** Chat completions of a gateway. */
export const surfaceOf = (gateway: Surface['gateway']): Surface => ({
  gateway,
  native: 'sandbox/chat',
  refusal: openAiRefusal,
  send: (model, patch) => post(gateway, '/v1/chat/completions', without({ model, messages: [USER], ...patch })),
})

export const say = (message: Json, ...before: Json[]): Json => ({ messages: [USER, ...before, message] })
export const part = (value: Json): Json => say({ role: 'user', content: [value] })
