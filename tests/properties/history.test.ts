import { describe, test } from 'bun:test'
import fc from 'fast-check'
import type { GenerationResponse } from '../../src/generation/event.ts'
import type { ConversationName, Part } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { isIncomplete } from './call-changes.ts'
import { answers, paces, eventsOf } from './answers.ts'
import { assertProperty, TIMEOUT_MS, assertSame } from './assertions.ts'
import { contextOf, framesOf, ISSUER, NAMES, rawRequestOf } from './protocol-pairs.ts'

/** A response that a client sends back unchanged is read as that response, with its signatures and their issuer. */

type Json = Record<string, any>

/** The next request of a client that sends the response back. */
const NEXT: Record<ConversationName, (answer: Json) => object> = {
  'chat.completions': (answer) => ({
    model: 'a/b',
    messages: [{ role: 'user', content: 'Hi' }, answer.choices[0].message],
  }),
  responses: (answer) => ({ model: 'a/b', input: [{ role: 'user', content: 'Hi' }, ...answer.output] }),
  messages: (answer) => ({
    model: 'a/b',
    max_tokens: 1,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: answer.content },
    ],
  }),
  generateContent: (answer) => ({
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }, answer.candidates[0].content],
  }),
}

const signatures = fc.infiniteStream(fc.constantFrom(undefined, undefined, 'sig-a', 'c2lnLWI=', 'a+b/c=='))

/** Any response that can be part of a history, with signatures on some calls and on its last text. */
const signed = fc.tuple(answers, signatures).map(([answer, stream]): GenerationResponse => {
  const parts = answer.parts.filter(({ type }) => type !== 'native' && type !== 'audio' && type !== 'image')
  const text = parts.findLast((part) => part.type === 'text' && part.text !== '')
  return {
    ...answer,
    parts: parts.map((part): Part => {
      const data = stream.next().value
      return (part.type === 'tool-call' || (part.type === 'text' && part === text)) && data !== undefined
        ? { ...part, signature: { data } }
        : part
    }),
  }
})

/** Signatures in order, each with the id of its call or the type of its part. */
const signaturesOf = (parts: readonly Part[]): string[] =>
  parts.flatMap((part) =>
    'signature' in part && part.signature !== undefined && part.signature.data !== ''
      ? [`${part.type === 'tool-call' ? part.id : part.type} ${part.signature.data}`]
      : [],
  )

/** All text and all reasoning. */
const textsOf = (parts: readonly Part[]): string[] =>
  ['text', 'reasoning'].map((type) =>
    parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join(''),
  )

test(
  'chunks of generateContent that are sent back one by one are read as their turn',
  () => {
    assertProperty(
      fc.property(signed, paces, (given, pace) => {
        const parts = given.parts.filter((part) => part.type !== 'refusal' && !isIncomplete(part))
        const answer = { ...given, parts }
        const chunks = framesOf('generateContent', eventsOf(answer, pace), contextOf('generateContent', ISSUER)).map(
          ({ data }) => (JSON.parse(data) as Json).candidates[0].content,
        )
        const { turns } = protocols.generateContent.serve.readRequest(
          rawRequestOf({ contents: [{ role: 'user', parts: [{ text: 'Hi' }] }, ...chunks] }),
        )
        const back = turns.slice(1).flatMap((turn) => turn.parts)
        assertSame(textsOf(back), textsOf(answer.parts), 'texts')
        assertSame(signaturesOf(back).toSorted(), signaturesOf(answer.parts).toSorted(), 'signatures')
      }),
    )
  },
  TIMEOUT_MS,
)

describe.each(NAMES)('clients of %s', (client) => {
  test(
    'a response that is sent back keeps the signatures of its issuer',
    () => {
      assertProperty(
        fc.property(signed, (given) => {
          // Google has no form for a call whose arguments are not complete, and messages leaves one out that was cut.
          const dropsIncomplete =
            client === 'generateContent' || (client === 'messages' && given.finish.reason === 'length')
          const parts = dropsIncomplete ? given.parts.filter((part) => !isIncomplete(part)) : given.parts
          const answer = { ...given, parts }
          const context = contextOf(client, ISSUER)
          const written = JSON.parse(JSON.stringify(protocols[client].serve.writeResponse(answer, context))) as Json
          const { turns } = protocols[client].serve.readRequest(rawRequestOf(NEXT[client](written)))
          const back = turns.slice(1).flatMap((turn) => turn.parts)
          const issuers = back.flatMap((part) =>
            'signature' in part && part.signature !== undefined ? [part.signature.issuer] : [],
          )
          for (const issuer of issuers) assertSame(issuer, ISSUER, 'issuer')
          const lost = context.losses!.losses.some(({ path }) => path === 'response.signature')
          if (!lost) assertSame(signaturesOf(back).toSorted(), signaturesOf(answer.parts).toSorted(), 'signatures')
          assertSame(
            back.filter(({ type }) => type === 'tool-call').map((part) => part.type === 'tool-call' && part.id),
            answer.parts.filter(({ type }) => type === 'tool-call').map((part) => part.type === 'tool-call' && part.id),
            'calls',
          )
        }),
      )
    },
    TIMEOUT_MS,
  )
})
