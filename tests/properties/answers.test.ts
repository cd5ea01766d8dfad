import { describe, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationResponse, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { noUsage } from '../../src/generation/usage.ts'
import type { Frame } from '../../src/http/frames.ts'
import { checkGrammar } from '../grammar.ts'
import { changesOf } from './answer-changes.ts'
import { comparable } from './answer-edits.ts'
import { answers, argumentsText, paces, eventsOf, type Pace } from './answers.ts'
import { assertProperty, TIMEOUT_MS, assertSame } from './assertions.ts'
import { bytesOf, contextOf, framesOf, NAMES, readStream, roundTrip, WAYS } from './protocol-pairs.ts'

/** A response reaches its client with all of its content, except for reported losses and known differences of form. */

describe.each(NAMES)('%s', (protocol) => {
  test.each(WAYS)(
    'a response that is written and read again is the same apart from its reported losses (%s)',
    (way) => {
      assertProperty(
        fc.property(answers, paces, (answer, pace) => {
          const sent = eventsOf(answer, pace)
          checkGrammar(sent)
          const { events, losses } = roundTrip(protocol, way, fold(sent), sent)
          checkGrammar(events)
          let expected = comparable(answer)
          const lost: string[] = []
          for (const { loss, make } of changesOf(protocol, way)) {
            const changed = make(expected)
            if (loss !== undefined && !Bun.deepEquals(changed, expected)) lost.push(loss.join(' '))
            expected = changed
          }
          const received = comparable(fold(events))
          for (const member of ['parts', 'finish', 'metered', 'usage', 'id', 'model'] as const)
            assertSame(received[member], expected[member], member)
          const reported = new Set(losses.map(({ code, path }) => `${code} ${path}`))
          assertSame(
            lost.filter((loss) => !reported.has(loss)),
            [],
            'changed, but not reported',
          )
        }),
      )
    },
    TIMEOUT_MS,
  )
})

/** The index of the call of a frame, in protocols that may interleave calls. */
const INDICES: [ConversationName, (data: Json) => number | undefined][] = [
  ['chat.completions', ({ choices }) => choices?.[0]?.delta?.tool_calls?.[0]?.index],
  ['responses', ({ output_index }) => output_index],
  ['messages', ({ index }) => index],
]
type Json = Record<string, any>

/** The frames of calls interleaved: the frames of each call, and the first frames of all calls, keep their order. */
function interleaved(
  frames: readonly Frame[],
  indexOf: (data: Json) => number | undefined,
  picks: readonly number[],
): Frame[] {
  const placed = frames.map((frame) => ({
    frame,
    index: frame.data === '[DONE]' ? undefined : indexOf(JSON.parse(frame.data) as Json),
  }))
  const queues = [
    ...Map.groupBy(
      placed.filter(({ index }) => index !== undefined),
      ({ index }) => index,
    ).values(),
  ]
  const mixed: Frame[] = []
  let begun = 0
  for (let pick = 0; queues.some((queue) => queue.length > 0); pick++) {
    const chosen = (picks[pick % picks.length] ?? 0) % Math.min(begun + 1, queues.length)
    const queue = queues[chosen]!.length > 0 ? queues[chosen]! : queues.find(({ length }) => length > 0)!
    begun = Math.max(begun, queues.indexOf(queue) + 1)
    mixed.push(queue.shift()!.frame)
  }
  const first = placed.findIndex(({ index }) => index !== undefined)
  return first < 0
    ? [...frames]
    : [
        ...frames.slice(0, first),
        ...mixed,
        ...placed
          .slice(first)
          .filter(({ index }) => index === undefined)
          .map(({ frame }) => frame),
      ]
}

/** Function calls, whose complete arguments can be recognized. */
const calls = fc.array(argumentsText, { minLength: 2, maxLength: 3 }).map(
  (all): GenerationResponse => ({
    id: 'theirs-1',
    model: 'their-model',
    usage: noUsage(),
    metered: false,
    finish: { reason: 'tool-calls', raw: 'x' },
    parts: all.map((text, index) => ({
      type: 'tool-call',
      id: `call_${index}`,
      name: 'look_up',
      arguments: text,
      form: 'function',
    })),
  }),
)
const slowPaces = fc.array(fc.nat(30), { minLength: 3, maxLength: 6 }).map((cuts): Pace => ({ cuts, early: 0 }))

test.each(INDICES)(
  'interleaved calls of %s are read one after the other',
  (protocol, indexOf) => {
    assertProperty(
      fc.property(calls, slowPaces, fc.array(fc.nat(5), { minLength: 1, maxLength: 20 }), (answer, pace, picks) => {
        const context = contextOf(protocol)
        const frames = framesOf(protocol, eventsOf(answer, pace), context)
        const read = (all: readonly Frame[]): GenerationEvent[] => readStream(protocol, [bytesOf(all)], context.request)
        const events = read(interleaved(frames, indexOf, picks))
        checkGrammar(events)
        assertSame(fold(events).parts, fold(read(frames)).parts)
      }),
      2,
    )
  },
  TIMEOUT_MS,
)
