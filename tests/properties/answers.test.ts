import { describe, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../src/generation/event.ts'
import { checkGrammar } from '../grammar.ts'
import { changesOf, comparable } from './answer-changes.ts'
import { answers, paces, sentenceOf } from './answers.ts'
import { holds, PATIENCE, same } from './runs.ts'
import { NAMES, through, WAYS } from './wires.ts'

describe.each(NAMES)('%s', (protocol) => {
  test.each(WAYS)('an answer says the same when it is read again, and the report names what does not (%s)', (way) => {
    holds(fc.property(answers, paces, (answer, pace) => {
      const sent = sentenceOf(answer, pace)
      checkGrammar(sent)
      const { events, losses } = through(protocol, way, fold(sent), sent)
      checkGrammar(events)
      let expected = comparable(answer)
      const told: string[] = []
      for (const { told: field, make } of changesOf(protocol, way)) {
        const changed = make(expected)
        if (field !== undefined && !Bun.deepEquals(changed, expected)) told.push(field)
        expected = changed
      }
      const heard = comparable(fold(events))
      for (const member of ['parts', 'finish', 'metered', 'usage', 'id', 'model'] as const) same(heard[member], expected[member], member)
      const fields = [...new Set(losses.map((loss) => loss.field))]
      same(told.filter((field) => !fields.includes(field)), [], 'changed, and not told')
    }))
  }, PATIENCE)
})
