import { LossReport } from '../../src/protocols/translation.ts'
import { withoutPaths } from '../translating.ts'
import { writtenWithNames } from './named-losses.ts'
import { describe, test } from 'bun:test'
import fc from 'fast-check'
import type { ConversationName, GenerationRequest } from '../../src/generation/request.ts'
import { wrapSignature, type Signature } from '../../src/generation/signature.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Target, RawRequest } from '../../src/protocols/protocol.ts'
import { besidesShown, forget, formOf, nothingEmpty } from './request-changes.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'
import { holds, PATIENCE, same } from './runs.ts'
import { exchangeOf, LABEL, MAKER, NAMES, wireOf } from './wires.ts'

/** A provider receives exactly the client's request, except for reported losses. */

const plain = (request: GenerationRequest): GenerationRequest =>
  withoutPaths(JSON.parse(JSON.stringify(request)) as GenerationRequest)

function heard(
  provider: ConversationName,
  request: GenerationRequest,
  target: Target = TARGETS[provider],
): { request: GenerationRequest; losses: string[] } {
  const { body, names } = writtenWithNames(provider, request, target)
  return { request: withoutPaths(protocols[provider].serve.readRequest(wireOf(body, request.stream))), losses: names }
}

/** All members except those with a reported loss. */
function compare(actual: GenerationRequest, expected: GenerationRequest, losses: readonly string[]): void {
  const words = new Set(losses)
  const [is, be] = [nothingEmpty(forget(plain(actual), words)), nothingEmpty(forget(plain(expected), words))]
  for (const member of new Set([...Object.keys(be), ...Object.keys(is)]) as Set<keyof GenerationRequest>)
    same(is[member], be[member], `${member}, with losses of ${[...words].join(', ')}`)
}

describe.each(NAMES)('%s', (provider) => {
  test(
    'a provider receives each option, or its loss is reported',
    () => {
      holds(
        fc.property(requests(scopeOf(provider)), (request) => {
          const { request: read, losses } = heard(provider, request)
          compare(formOf(provider)(read), formOf(provider)(request), losses)
        }),
      )
    },
    PATIENCE,
  )

  test(
    'a body that is read and written again is the same body',
    () => {
      // Reasoning options are compared above: absent ones may be written as explicit defaults.
      holds(
        fc.property(
          requests(scopeOf(provider)).map(({ reasoning: _, ...request }) => request),
          (request) => {
            const write = (one: GenerationRequest): unknown =>
              JSON.parse(JSON.stringify(writtenWithNames(provider, one, TARGETS[provider]).body))
            const { request: read } = heard(provider, request)
            same(write(sealed({ ...read, protocol: 'images' })), write(request))
          },
        ),
      )
    },
    PATIENCE,
  )

  test(
    'a provider of the client protocol receives the body unchanged, and envelopes are opened for their issuer only',
    () => {
      holds(
        fc.property(requests(scopeOf(provider)), (request) => {
          const { body } = writtenWithNames(
            provider,
            withSignatures(request, ({ data, issuer }) => ({ data: wrapSignature(data, issuer), issuer: OURS })),
            TARGETS[provider],
          )
          const rawRequest = wireOf(body, request.stream)
          const context = {
            ...exchangeOf(provider),
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
            wireOf(writtenWithNames(provider, request, TARGETS[provider]).body, request.stream),
          )
          same(plain(ownThoughts(formOf(provider)(forwarded))), plain(ownThoughts(formOf(provider)(direct))))
        }),
      )
    },
    PATIENCE,
  )

  test.each(NAMES)(
    'a client of %s has the same request sent',
    (client) => {
      holds(
        fc.property(requests(scopeOf(provider, client)), (request) => {
          const asked = heard(client, request)
          const read = heard(provider, sealed(asked.request))
          const form = (one: GenerationRequest): GenerationRequest =>
            besidesShown(formOf(provider)(formOf(client)(one)))
          compare(form(read.request), form(request), [...asked.losses, ...read.losses])
        }),
        0.3,
      )
    },
    PATIENCE,
  )
})

const OURS = { ...MAKER, model: LABEL.model }

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

/** The placeholder for a missing signature. */
const UNSIGNED = ['', 'skip_thought_signature_validator']

/** Without unsigned reasoning, which depends on the provider. */
const ownThoughts = (request: GenerationRequest): GenerationRequest => ({
  ...request,
  turns: request.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.filter(
      (part) => part.type !== 'reasoning' || (part.signature !== undefined && !UNSIGNED.includes(part.signature.data)),
    ),
  })),
})

/** A response that a client received through another protocol is sent back with its issuer. */
const sealed = (request: GenerationRequest): GenerationRequest =>
  withSignatures(request, (signature) => ({ ...signature, issuer: OURS }))
