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

/**
 * Whatever a client sends is a request for every provider, or a refusal that names what is wrong; never a mistake of
 * ours.
 */

function checkRefusal(error: unknown): void {
  if (!(error instanceof GatewayError)) throw new Error(`no refusal: ${String(error)}`, { cause: error })
  if (![400, 404].includes(error.status) || error.param === undefined)
    throw new Error(`a refusal with ${error.status} of ${String(error.param)}: ${error.message}`)
}

function attempted<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch (error) {
    checkRefusal(error)
    return undefined
  }
}

describe.each(NAMES)('%s', (client: ConversationName) => {
  test(
    'a damaged body is a request for every provider, or refused by its path',
    () => {
      assertProperty(
        fc.property(requests(scopeOf(client)), fc.array(change, { minLength: 1, maxLength: 3 }), (asked, changes) => {
          const body = mutated(
            JSON.parse(JSON.stringify(written(client, asked, TARGETS[client]).body)),
            changes,
          ) as object
          const rawRequest = rawRequestOf(body, asked.stream)
          attempted(() => protocols[client].serve.references!(rawRequest.body))
          const request = attempted((): GenerationRequest => protocols[client].serve.readRequest(rawRequest))
          if (request === undefined) return
          for (const provider of NAMES) {
            if (provider === client)
              attempted(() =>
                protocols[provider].call.forward(
                  { ...contextOf(client), rawRequest, request },
                  TARGETS[provider],
                  new LossReport(),
                ),
              )
            else
              attempted(() =>
                JSON.stringify(written(provider, request, { ...TARGETS[provider], provider: 'another' }).body),
              )
          }
        }),
        2,
      )
    },
    TIMEOUT_MS,
  )
})
