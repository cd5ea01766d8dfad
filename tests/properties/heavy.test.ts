import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AppContext, AuthenticatedRequest } from '../../src/context.ts'
import { GatewayError } from '../../src/error.ts'
import type { GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { bodyText } from '../../src/http/encode-request.ts'
import { modelLimitOf } from '../../src/ledger/admission.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { ResponseStore } from '../../src/endpoints/responses/response-store.ts'
import { meteredEvents } from '../../src/pipeline/heavy/answer-job.ts'
import { HeavyRequest } from '../../src/pipeline/heavy/request.ts'
import { HEAVY } from '../../src/pipeline/heavy/weight.ts'
import { parse, select } from '../../src/pipeline/prepare.ts'
import { protocols } from '../../src/protocols/index.ts'
import { responseObject } from '../../src/protocols/responses/response-object.ts'
import { errorData } from '../../src/worker/errors.ts'
import { inProcessGateway } from '../gateway/in-process.ts'
import { answers, eventsOf, paces } from './answers.ts'
import { assertAsyncProperty, assertProperty, assertSame, TIMEOUT_MS } from './assertions.ts'
import { change, mutated } from './mutations.ts'
import { NAMES } from './protocol-pairs.ts'
import { writtenWithLosses } from './request-losses.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'

/** A request that another process reads and writes is sent, held for and refused as one of the server itself. */

/** A case costs 10 to 25 ms. */
const SHARE = 0.5

const idOf = (name: ConversationName): string => `to-${protocols[name].alias.toLowerCase()}`
const PROVIDERS = NAMES.map((name) => `  ${idOf(name)}: { baseUrl: "http://p/v1", protocol: ${name} }`)
const ENDPOINTS = NAMES.map((name) => `{ provider: ${idOf(name)}, model: x }`)
const CONFIG = `
billing: { unpriced: free }
providers:
${PROVIDERS.join('\n')}
models:
  all: { endpoints: [${ENDPOINTS.join(', ')}] }
`
const MODELS = ['all', ...NAMES.map((name) => `${idOf(name)}/x`)]

let folder = ''
let app: AppContext
let close = (): Promise<void> => Promise.resolve()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-heavy-'))
  const gateway = await inProcessGateway(folder, CONFIG, () => ({}))
  app = gateway.app
  close = () => gateway.plain.close()
})
afterAll(async () => {
  await close()
  rmSync(folder, { recursive: true })
})

const usual = { ...HEAVY }
const always = { bytes: 0, elements: 0, unscanned: 0, settings: 0, answer: 0 }
const never = { bytes: Infinity, elements: Infinity, unscanned: Infinity, settings: Infinity, answer: Infinity }

type Sent = { protocol: ConversationName; model: string; strict: boolean; text: string }

/** Everything that a request becomes, for each of its endpoints; or its refusal. */
async function outcomeOf({ protocol, model, strict, text }: Sent, weights: typeof HEAVY): Promise<unknown> {
  const fromPath = protocols[protocol].serve.modelInPath === true ? { model, stream: true } : undefined
  const headers = { 'x-sluice-strict': String(strict), 'anthropic-beta': 'some-beta' }
  const inbound = {
    id: '0'.repeat(32),
    request: new Request('http://sluice/', { method: 'POST', body: text, headers }),
    identity: { accountId: 'account', allows: () => true },
  } as unknown as AuthenticatedRequest
  const hooks = protocol === 'responses' ? new ResponseStore(app, inbound) : {}
  const route = { protocol, hooks, fromPath }
  Object.assign(HEAVY, weights)
  try {
    const parsed = await parse(app, inbound, route)
    expect(parsed instanceof HeavyRequest).toBe(weights === always)
    const { context, endpoints, hasTools, worst, preparedRequests } = await select(app, inbound, route, parsed)
    const { promptEstimate } = context
    const repeated = protocol === 'responses' ? { ...responseObject(context), created_at: 0 } : {}
    const { model: named, stream, includeUsage, reasoning } = context.request
    const sent = []
    for (const endpoint of endpoints)
      sent.push(
        await Promise.try(() => preparedRequests.take(endpoint)).then(
          ({ url, headers, body, losses, transforms }) => ({
            url,
            headers,
            body: bodyText(body),
            losses: losses.losses,
            transforms,
          }),
          refusalOf,
        ),
      )
    return {
      repeated,
      promptEstimate,
      named,
      stream,
      includeUsage,
      reasoning,
      hasTools,
      worst: worst(modelLimitOf(endpoints)),
      sent,
    }
  } catch (error) {
    return refusalOf(error)
  } finally {
    Object.assign(HEAVY, usual)
  }
}

function refusalOf(error: unknown): unknown {
  if (!(error instanceof GatewayError)) throw error
  return errorData(error)
}

async function check(sent: Sent): Promise<void> {
  assertSame(await outcomeOf(sent, always), await outcomeOf(sent, never), `${sent.protocol} to ${sent.model}`)
}

describe.each(NAMES)('requests of %s', (protocol) => {
  const inPath = protocols[protocol].serve.modelInPath === true
  const bodies = fc
    .record({ request: requests(scopeOf(protocol)), model: fc.constantFrom(...MODELS), strict: fc.boolean() })
    .map(({ request, model, strict }) => ({
      model,
      strict,
      body: {
        ...writtenWithLosses(protocol, request, TARGETS[protocol]).body,
        ...(inPath ? {} : { model, stream: request.stream }),
      } as object,
    }))

  test(
    'every request becomes the same in both processes',
    () =>
      assertAsyncProperty(
        fc.asyncProperty(bodies, ({ body, ...sent }) => check({ protocol, ...sent, text: JSON.stringify(body) })),
        SHARE,
      ),
    TIMEOUT_MS,
  )

  test(
    'every wrong request is refused in the same words',
    () =>
      assertAsyncProperty(
        fc.asyncProperty(
          bodies,
          fc.array(change, { minLength: 1, maxLength: 3 }),
          fc.integer({ min: 0, max: 50 }),
          ({ body, ...sent }, changes, cut) => {
            const text = JSON.stringify(mutated(JSON.parse(JSON.stringify(body)), changes))
            return check({ protocol, ...sent, text: cut === 0 ? text.slice(0, -1) : text })
          },
        ),
        SHARE,
      ),
    TIMEOUT_MS,
  )
})

test(
  'a meter records the same of a response that the other process has read',
  () => {
    const recordedOf = (events: readonly GenerationEvent[]): unknown => {
      const meter = new Meter(() => Promise.resolve(0))
      meter.record(events)
      const { usage, finish, recordedFinish, showsReasoning, lacksUsage, received } = meter
      return { usage, finish, recordedFinish, showsReasoning, lacksUsage, received }
    }
    assertProperty(
      fc.property(answers, paces, (answer, pace) => {
        const events = eventsOf(answer, pace)
        assertSame(recordedOf(meteredEvents(events)), recordedOf(events))
      }),
    )
  },
  TIMEOUT_MS,
)
