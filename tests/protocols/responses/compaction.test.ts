import { expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { missingRoute } from '../../../src/protocols/responses/compaction.ts'
import { rawRequestOf, readWithPaths } from './fixtures.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { readToTranslate } from '../../translating.ts'

/** Compactions of conversations, which few providers can do. */

const compaction = (body: object = {}) => ({
  ...rawRequestOf({ model: 'a/b', input: 'hi', ...body }),
  compaction: true as const,
})

test.each<[number, ConstructorParameters<typeof GatewayError>[0], string | undefined, boolean]>([
  [404, 'not_found', undefined, true],
  [405, 'upstream_error', undefined, true],
  [405, 'upstream_error', 'model', true],
  [404, 'model_not_found', undefined, false],
  [404, 'not_found', 'input[0]', false],
  [400, 'invalid_request', undefined, false],
])('the error %i %s with the parameter %s says that there is no such route: %p', (status, code, param, isMissing) => {
  const error = new GatewayError(code, 'm', { metadata: { a: 1 }, ...(param === undefined ? {} : { param }) })
  const request = responses.serve.readRequest(compaction())
  expect(missingRoute(request, status, error)).toEqual(
    isMissing
      ? (expect.objectContaining({
          ...{ code: 'unsupported_parameter', param: 'model', metadata: { a: 1 } },
          message: expect.stringContaining("model: no provider of 'a/b' compacts conversations"),
        }) as never)
      : undefined,
  )
  expect(missingRoute(readWithPaths({ input: 'hi' }), status, error)).toBeUndefined()
})

test('a compaction is not streamed, and is refused where a provider of another protocol gets it', () => {
  const request = responses.serve.readRequest(compaction())
  expect(request.compaction).toBe(true)
  expect(() => responses.serve.readRequest(compaction({ stream: true }))).toThrow('stream: must be false')
  expect(() => readToTranslate('responses', compaction())).toThrow("model: no provider of 'a/b' compacts")
})
