import { describe, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type Answer, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { noUsage } from '../../src/generation/usage.ts'
import type { Frame } from '../../src/http/frames.ts'
import { checkGrammar } from '../grammar.ts'
import { changesOf, comparable } from './answer-changes.ts'
import { answers, argumentsText, paces, eventsOf, type Pace } from './answers.ts'
import { assertProperty, TIMEOUT_MS, assertSame } from './assertions.ts'
import { bytesOf, contextOf, framesOf, NAMES, readStream, roundTrip, WAYS } from './protocol-pairs.ts'

/** An answer reaches its client whole, but for what is told as lost and what its protocol is known to change. */

describe.each(NAMES)('%s', (protocol) => {
  test.each(WAYS)(
    'an answer says the same when it is read again, and the report names what does not (%s)',
    (way) => {
      assertProperty(
        fc.property(answers, paces, (answer, pace) => {
          const sent = eventsOf(answer, pace)
          checkGrammar(sent)
          const { events, losses } = roundTrip(protocol, way, fold(sent), sent)
          checkGrammar(events)
          let expected = comparable(answer)
          const told: string[] = []
          for (const { told: field, make } of changesOf(protocol, way)) {
            const changed = make(expected)
            if (field !== undefined && !Bun.deepEquals(changed, expected)) told.push(field)
            expected = changed
          }
          const heard = comparable(fold(events))
          for (const member of ['parts', 'finish', 'metered', 'usage', 'id', 'model'] as const)
            assertSame(heard[member], expected[member], member)
          const fields = [...new Set(losses.map((loss) => loss.path))]
          assertSame(
            told.filter((field) => !fields.includes(field)),
            [],
            'changed, and not told',
          )
        }),
      )
    },
    TIMEOUT_MS,
  )
})

/** Where a frame belongs, in the protocols that may send several calls at once. */
const PLACE: [ConversationName, (data: Any) => number | undefined][] = [
  ['chat.completions', ({ choices }) => choices?.[0]?.delta?.tool_calls?.[0]?.index],
  ['responses', ({ output_index }) => output_index],
  ['messages', ({ index }) => index],
]
type Any = Record<string, any>

/** The frames of calls shuffled into each other: each call's own keep their order, and calls begin in theirs. */
function interleaved(
  frames: readonly Frame[],
  place: (data: Any) => number | undefined,
  picks: readonly number[],
): Frame[] {
  const placed = frames.map((frame) => ({
    frame,
    at: frame.data === '[DONE]' ? undefined : place(JSON.parse(frame.data) as Any),
  }))
  const queues = [
    ...Map.groupBy(
      placed.filter(({ at }) => at !== undefined),
      ({ at }) => at,
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
  const first = placed.findIndex(({ at }) => at !== undefined)
  return first < 0
    ? [...frames]
    : [
        ...frames.slice(0, first),
        ...mixed,
        ...placed
          .slice(first)
          .filter(({ at }) => at === undefined)
          .map(({ frame }) => frame),
      ]
}

/** Calls of functions, whose arguments say where they end, in several pieces each. */
const calls = fc.array(argumentsText, { minLength: 2, maxLength: 3 }).map(
  (all): Answer => ({
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
const inPieces = fc.array(fc.nat(30), { minLength: 3, maxLength: 6 }).map((cuts): Pace => ({ cuts, early: 0 }))

test.each(PLACE)(
  'calls of %s that come at once are heard one after the other',
  (protocol, place) => {
    assertProperty(
      fc.property(calls, inPieces, fc.array(fc.nat(5), { minLength: 1, maxLength: 20 }), (answer, pace, picks) => {
        const context = contextOf(protocol)
        const frames = framesOf(protocol, eventsOf(answer, pace), context)
        const heard = (all: readonly Frame[]): GenerationEvent[] =>
          readStream(protocol, [bytesOf(all)], context.request)
        const events = heard(interleaved(frames, place, picks))
        checkGrammar(events)
        assertSame(fold(events).parts, fold(heard(frames)).parts)
      }),
      2,
    )
  },
  TIMEOUT_MS,
)
