import { type Loss, LossReport } from '../../src/protocols/translation.ts'
import { withoutPaths } from '../translating.ts'
import { describe, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName, GenerationRequest } from '../../src/generation/request.ts'
import { wrapSignature, type Signature } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target, RawRequest } from '../../src/protocols/protocol.ts'
import { withoutDropped, withoutLost } from './lost-fields.ts'
import { normalFormOf, withoutEmptyReasoning, withoutVisibility } from './normal-forms.ts'
import { writtenWithLosses } from './request-losses.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'
import { assertProperty, TIMEOUT_MS, assertSame } from './assertions.ts'
import { contextOf, IDENTITY, ISSUER, NAMES, rawRequestOf } from './protocol-pairs.ts'

/** A provider receives exactly what a client requests, except for reported losses. */

const plain = (request: GenerationRequest): GenerationRequest =>
  withoutPaths(JSON.parse(JSON.stringify(request)) as GenerationRequest)

/** The request as the provider reads it, and the losses on the way. */
function readBy(
  provider: ConversationName,
  request: GenerationRequest,
  target: Target = TARGETS[provider],
): { request: GenerationRequest; losses: Loss[] } {
  const { body, losses } = writtenWithLosses(provider, request, target)
  return { request: withoutPaths(protocols[provider].serve.readRequest(rawRequestOf(body, request.stream))), losses }
}

/** Compares all members except those with a reported loss. */
function compare(actual: GenerationRequest, expected: GenerationRequest, losses: readonly Loss[]): void {
  const comparable = (request: GenerationRequest): GenerationRequest =>
    withoutEmptyReasoning(withoutLost(plain(request), losses))
  const [read, sent] = [comparable(actual), comparable(expected)]
  const reported = losses.map(({ code, path }) => `${code} at ${path}`).join(', ')
  for (const member of new Set([...Object.keys(sent), ...Object.keys(read)]) as Set<keyof GenerationRequest>)
    assertSame(read[member], sent[member], `${member}, with losses ${reported}`)
}

describe.each(NAMES)('requests for %s', (provider) => {
  test(
    'a provider receives every field that is not reported as lost',
    () => {
      assertProperty(
        fc.property(requests(scopeOf(provider)), (request) => {
          const { request: read, losses } = readBy(provider, request)
          // Reasoning that is not possible is switched off.
          const adjusted = losses.filter(
            ({ effect, code }) => effect === 'approximated' || code === 'reasoning_not_possible',
          )
          compare(normalFormOf(provider)(read), normalFormOf(provider)(withoutDropped(request, losses)), adjusted)
        }),
      )
    },
    TIMEOUT_MS,
  )

  test(
    'a body that is read and written again is the same',
    () => {
      // Reasoning is compared above: defaults are written explicitly.
      assertProperty(
        fc.property(
          requests(scopeOf(provider)).map(({ reasoning: _, ...request }) => request),
          (request) => {
            const write = (one: GenerationRequest): unknown =>
              JSON.parse(JSON.stringify(writtenWithLosses(provider, one, TARGETS[provider]).body))
            const { request: read } = readBy(provider, request)
            assertSame(write(withOurIssuer({ ...read, protocol: 'images' })), write(request))
          },
        ),
      )
    },
    TIMEOUT_MS,
  )

  test(
    'a provider of the same protocol receives the body with the signatures unwrapped that it issued',
    () => {
      assertProperty(
        fc.property(requests(scopeOf(provider)), (request) => {
          const { body } = writtenWithLosses(
            provider,
            withSignatures(request, ({ data, issuer }) => ({ data: wrapSignature(data, issuer), issuer: OUR_ISSUER })),
            TARGETS[provider],
          )
          const rawRequest = rawRequestOf(body, request.stream)
          const context = {
            ...contextOf(provider),
            rawRequest,
            request: protocols[provider].serve.readRequest(rawRequest),
          }
          const forwarded = protocols[provider].serve.readRequest({
            ...rawRequest,
            body: JSON.parse(
              protocols[provider].call.forward(context, TARGETS[provider], new LossReport()),
            ) as RawRequest['body'],
            text: protocols[provider].call.forward(context, TARGETS[provider], new LossReport()),
          })
          const direct = protocols[provider].serve.readRequest(
            rawRequestOf(writtenWithLosses(provider, request, TARGETS[provider]).body, request.stream),
          )
          assertSame(
            plain(withoutUnsignedReasoning(normalFormOf(provider)(forwarded))),
            plain(withoutUnsignedReasoning(normalFormOf(provider)(direct))),
          )
        }),
      )
    },
    TIMEOUT_MS,
  )

  test.each(NAMES)(
    'a provider receives the same request from a client of %s',
    (client) => {
      assertProperty(
        fc.property(requests(scopeOf(provider, client)), (request) => {
          const first = readBy(client, request)
          const read = readBy(provider, withOurIssuer(first.request))
          const form = (one: GenerationRequest): GenerationRequest =>
            withoutVisibility(normalFormOf(provider)(normalFormOf(client)(one)))
          compare(form(read.request), form(request), [...first.losses, ...read.losses])
        }),
        0.3,
      )
    },
    TIMEOUT_MS,
  )
})

const OUR_ISSUER = { ...ISSUER, model: IDENTITY.model }

const withSignatures = (
  request: GenerationRequest,
  change: (signature: Signature) => Signature,
): GenerationRequest => ({
  ...request,
  turns: request.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.map((part) =>
      'signature' in part && part.signature !== undefined ? { ...part, signature: change(part.signature) } : part,
    ),
  })),
})

/** Placeholders of missing signatures. */
const UNSIGNED = ['', 'skip_thought_signature_validator']

/** Without unsigned reasoning, which each provider treats differently. */
const withoutUnsignedReasoning = (request: GenerationRequest): GenerationRequest => ({
  ...request,
  turns: request.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.filter(
      (part) => part.type !== 'reasoning' || (part.signature !== undefined && !UNSIGNED.includes(part.signature.data)),
    ),
  })),
})

/** With the issuer on each signature, as on those that a client of another protocol sends back. */
const withOurIssuer = (request: GenerationRequest): GenerationRequest =>
  withSignatures(request, (signature) => ({ ...signature, issuer: OUR_ISSUER }))
