import { LossReport } from '../../src/protocols/translation.ts'
import { written } from '../translating.ts'
import { describe, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName, GenerationRequest } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { change, mutated } from './mutations.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'
import { assertProperty, TIMEOUT_MS } from './assertions.ts'
import { contextOf, NAMES, rawRequestOf } from './protocol-pairs.ts'

/** A malformed body is written for every provider or refused with a path; it never fails in another way. */

function checkRefusal(error: unknown): void {
  if (!(error instanceof GatewayError)) throw new Error(`not a GatewayError: ${String(error)}`, { cause: error })
  if (![400, 404].includes(error.status) || error.param === undefined)
    throw new Error(`refused with ${error.status} and path ${String(error.param)}: ${error.message}`)
}

function resultOrRefusal<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch (error) {
    checkRefusal(error)
    return undefined
  }
}

describe.each(NAMES)('requests of %s', (client: ConversationName) => {
  test(
    'a damaged body is written for every provider or refused with a path',
    () => {
      assertProperty(
        fc.property(
          requests(scopeOf(client)),
          fc.array(change, { minLength: 1, maxLength: 3 }),
          (generated, changes) => {
            const body = mutated(
              JSON.parse(JSON.stringify(written(client, generated, TARGETS[client]).body)),
              changes,
            ) as object
            const rawRequest = rawRequestOf(body, generated.stream)
            resultOrRefusal(() => protocols[client].serve.references!(rawRequest.body))
            const request = resultOrRefusal((): GenerationRequest => protocols[client].serve.readRequest(rawRequest))
            if (request === undefined) return
            for (const provider of NAMES) {
              if (provider === client)
                resultOrRefusal(() =>
                  protocols[provider].call.forward(
                    { ...contextOf(client), rawRequest, request },
                    TARGETS[provider],
                    new LossReport(),
                  ),
                )
              else
                resultOrRefusal(() =>
                  JSON.stringify(written(provider, request, { ...TARGETS[provider], provider: 'another' }).body),
                )
            }
          },
        ),
        2,
      )
    },
    TIMEOUT_MS,
  )
})

test('a schema with an inherited member as its type is written for every provider or refused with a path', () => {
  for (const type of ['toString', 'constructor', '__proto__', 'hasOwnProperty', 'valueOf']) {
    const parameters = { type: 'object', properties: { a: { type, minLength: 1, maxItems: 2, required: ['b'] } } }
    const request = protocols['chat.completions'].serve.readRequest(
      rawRequestOf({
        model: 'a/b',
        messages: [{ role: 'user', content: 'Hi' }],
        tools: [{ type: 'function', function: { name: 'look_up', parameters, strict: true } }],
        response_format: { type: 'json_schema', json_schema: { name: 'a', schema: parameters } },
      }),
    )
    for (const provider of NAMES)
      resultOrRefusal(() => written(provider, { ...request, protocol: 'images' }, TARGETS[provider]).body)
  }
})
