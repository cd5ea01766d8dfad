import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf, NAMES } from '../matrix/routes.ts'
import { eventsOf, streamedEventsOf } from '../translating.ts'

/** Responses of many tool calls: the work for them is linear in their number. */

const FEW = 4_000
const MANY = 32_000
/** Linear work gives 8, quadratic work 64, and less with a linear part. */
const MOST_TIMES = 20

const responseOf = (calls: number): GenerationEvent[] => [
  { type: 'start', id: 'theirs', model: 'm' },
  ...Array.from({ length: calls }).flatMap((_, part): GenerationEvent[] => [
    { type: 'part-start', part, head: { type: 'tool-call', id: `call_${part}`, name: 'f', form: 'function' } },
    { type: 'part-delta', part, text: '{"a":' },
    { type: 'part-delta', part, text: '1}' },
    { type: 'part-end', part },
  ]),
  { type: 'usage', usage: { inputTokens: 1, outputTokens: calls } },
  { type: 'finish', reason: 'tool-calls', raw: 'tool_calls' },
]

const eventsOfCalls = new Map([FEW, MANY].map((calls) => [calls, responseOf(calls)]))

const framesOf = (protocol: ConversationName, calls: number): Frame[] => {
  const writer = protocols[protocol].serve.writer(contextOf(protocol))
  return eventsOfCalls.get(calls)!.flatMap((event) => writer.write(event))
}

const wholeOf = (protocol: ConversationName, calls: number): object =>
  protocols[protocol].serve.writeResponse(fold(eventsOfCalls.get(calls)!), contextOf(protocol))

/** All calls begin before the first of them has arguments, and all have them before the first ends. */
const interleaved = (frames: Frame[]): Frame[] => {
  const stageOf = ({ data }: Frame): number =>
    /"(?:response\.created|message_start)"/.test(data)
      ? 0
      : /"(?:content_block_start|response\.output_item\.added)"|"name":"f"/.test(data)
        ? 1
        : /"(?:content_block_delta|response\.function_call_arguments\.delta|tool_calls)"/.test(data)
          ? 2
          : 3
  const { 0: start = [], 1: begins = [], 2: deltas = [], 3: ends = [] } = Object.groupBy(frames, stageOf)
  return [...start, ...begins, ...deltas, ...ends]
}

/** The compiler and the garbage collector of the process, which other tests share, add to some runs, never to all. */
const MOST_RUNS = 30

/** Processor time of a run: a busy machine lengthens it by less than the time that passes. */
function cost(run: () => GenerationEvent[], calls: number): number {
  const before = process.cpuUsage()
  const events = run()
  const { user, system } = process.cpuUsage(before)
  expect(events.filter(({ type }) => type === 'part-end')).toHaveLength(calls)
  return user + system
}

/**
 * Compares the fastest runs, and makes more while those so far do not show it. The first of few calls meets code that
 * is not compiled, so there are two; another one of many calls could only be in favour.
 */
const expectLinear = (runOf: (calls: number) => () => GenerationEvent[]): void => {
  const [runFew, runMany] = [runOf(FEW), runOf(MANY)]
  let [few, many] = [cost(runFew, FEW), Infinity]
  for (let run = 0; run < MOST_RUNS && !(many / few < MOST_TIMES); run++) {
    few = Math.min(few, cost(runFew, FEW))
    many = Math.min(many, cost(runMany, MANY))
  }
  expect(many / few).toBeLessThan(MOST_TIMES)
}

describe.each(NAMES)('a response of many calls in %s', (protocol) => {
  test('is read in linear time as a stream', () => {
    expectLinear((calls) => {
      const frames = framesOf(protocol, calls)
      return () => streamedEventsOf(protocol, frames)
    })
  })

  test('is read in linear time in one piece', () => {
    expectLinear((calls) => {
      const body = wholeOf(protocol, calls)
      return () => eventsOf(protocol, body)
    })
  })

  test('is written in linear time', () => {
    expectLinear((calls) => () => {
      framesOf(protocol, calls)
      wholeOf(protocol, calls)
      return eventsOfCalls.get(calls)!
    })
  })
})

/** Its calls come whole. */
const WITHOUT_INTERLEAVED: ConversationName = 'generateContent'

describe.each(NAMES.filter((name) => name !== WITHOUT_INTERLEAVED))(
  'a response of interleaved calls in %s',
  (protocol) => {
    test('is read in linear time', () => {
      expectLinear((calls) => {
        const frames = interleaved(framesOf(protocol, calls))
        return () => streamedEventsOf(protocol, frames)
      })
    })
  },
)
