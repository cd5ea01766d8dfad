import { expect, test } from 'bun:test'
import { workOf } from '../../src/endpoints/predictions/work.ts'
import { GatewayError } from '../../src/error.ts'

test('an error in the input keeps its cause, and gets the path that it has in the body of the prediction', async () => {
  const cause = new Error('the disk does not respond')
  const thrown = new GatewayError('not_found', 'messages[0].content: no file is stored', {
    param: 'messages[0].content',
    retryAfterSeconds: 3,
    cause,
  })
  const app = {
    catalogue: { predictionEndpoints: () => [], endpoints: () => [{ target: { capabilities: {} } }] },
    config: { limits: { bodyBytes: 1_000 } },
    media: { resolve: () => Promise.reject(thrown) },
  } as unknown as Parameters<typeof workOf>[0]
  const requested = { accountId: 'a', model: 'm', version: null, input: { prompt: 'Hi' }, origin: 'http://sluice' }
  const error = await workOf(app, requested, new AbortController().signal).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(GatewayError)
  expect(error).toMatchObject({
    code: 'not_found',
    message: 'input.messages[0].content: no file is stored',
    param: 'input.messages[0].content',
    retryAfterSeconds: 3,
  })
  expect((error as GatewayError).cause).toBe(cause)
})
