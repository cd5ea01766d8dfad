/** The console's types of answers stand for those of the gateway: this file has to compile. */
import { expect, test } from 'bun:test'
import type * as Console from '../../console/api/answers.ts'
import type * as Gateway from '../../src/endpoints/management/answers.ts'

/** What the gateway answers can be read as what the console expects. */
const READ = {
  key: (answer: Gateway.KeyAnswer): Console.Key => answer,
  newKey: (answer: Gateway.NewKeyAnswer): Console.NewKey => answer,
  linkPreview: (answer: Gateway.LinkPreview): Omit<Console.LinkPreview, 'user'> => answer,
}

test('answers of the gateway have the types that the console reads', () => {
  const answer = {} as never
  for (const read of Object.values(READ)) expect(read(answer)).toBe(answer)
})
