import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, unfold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { Turn } from '../../../src/generation/request.ts'
import { readResponse } from '../../../src/protocols/gemini/read-response.ts'
import { writeResponse } from '../../../src/protocols/gemini/write-response.ts'
import { checkGrammar, sentences } from '../../grammar.ts'
import { withoutPaths, written } from '../../translating.ts'
import {
  assistant,
  callOf,
  chunksOf,
  contextOf,
  eventsOf,
  read,
  requestOf,
  resultOf,
  results,
  targetOf,
  textOf,
  user,
} from './building.ts'

/** Requests and responses of generateContent that are written and read again. */

test('any conversation and its settings are the same after they are written and read again', () => {
  const words = fc.string({ minLength: 1, maxLength: 8 })
  const args = fc
    .dictionary(fc.constantFrom('b', 'a', 'c'), fc.oneof(fc.string(), fc.integer()), { maxKeys: 3 })
    .map((value) => JSON.stringify(value))
  const step = fc.tuple(words, fc.array(args, { maxLength: 3 }), words)
  const request = fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 4 }),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    maxOutputTokens: fc.integer({ min: 1, max: 1e6 }),
    stop: fc.array(words, { minLength: 1, maxLength: 5 }),
    system: words,
  })
  fc.assert(
    fc.property(request, ({ steps, temperature, maxOutputTokens, stop, system }) => {
      const turns = steps.flatMap(([question, calls, answer], round): Turn[] => [
        user(textOf(question)),
        ...(calls.length === 0
          ? []
          : [
              assistant(...calls.map((one, index) => callOf(`${round}_${index}`, one))),
              results(
                ...calls.map((_, index) => resultOf(`${round}_${index}`, answer, { name: `f_${round}_${index}` })),
              ),
            ]),
        assistant(textOf(answer)),
      ])
      const sent = requestOf({ turns, system: [textOf(system)], sampling: { temperature, stop }, maxOutputTokens })
      const {
        turns: back,
        system: instructions,
        sampling,
        maxOutputTokens: limit,
      } = withoutPaths(read(written('generateContent', sent, targetOf()).body))
      expect({ back, instructions, sampling, limit }).toEqual({
        back: turns,
        instructions: sent.system,
        sampling: sent.sampling,
        limit: maxOutputTokens,
      })
    }),
    { numRuns: 200 },
  )
})

/** The content that a response keeps when it is written and read again: Google joins texts and has fewer reasons. */
const essence = (events: GenerationEvent[]) => {
  const { parts, usage: counted, metered } = fold(events)
  const joined: unknown[] = []
  for (const one of parts) {
    const last = joined.at(-1) as { type: string; text: string; signature?: unknown } | undefined
    if (one.type === 'text' || one.type === 'refusal' || one.type === 'reasoning') {
      const type = one.type === 'refusal' ? 'text' : one.type
      const signature = 'signature' in one ? one.signature : undefined
      if (last?.type === type && last.signature === undefined)
        Object.assign(last, { text: last.text + one.text, signature })
      else if (one.text !== '' || signature !== undefined) joined.push({ type, text: one.text, signature })
    } else if (one.type === 'tool-call')
      joined.push({ type: one.type, id: one.id, name: one.name, arguments: one.arguments, signature: one.signature })
    else if (one.type === 'image') joined.push({ type: one.type, source: one.source })
  }
  return {
    joined,
    input: metered ? counted.inputTokens : 0,
    cached: counted.cacheReadTokens,
    output: counted.outputTokens,
    reasoning: counted.reasoningTokens,
  }
}

test('any response is the same after it is written and read again, streamed and whole', () => {
  const arbitrary = sentences({
    errors: false,
    kinds: ['text', 'reasoning', 'refusal', 'tool-call', 'image', 'citation'],
  })
  fc.assert(
    fc.property(arbitrary, (events) => {
      const streamed = eventsOf(chunksOf(events))
      checkGrammar(streamed)
      expect(essence(streamed)).toEqual(essence(events))
      const whole = readResponse(JSON.parse(JSON.stringify(writeResponse(fold(events), contextOf()))))
      checkGrammar(whole)
      expect(essence(whole)).toEqual(essence([...unfold(fold(events))]))
    }),
    { numRuns: 300 },
  )
})
