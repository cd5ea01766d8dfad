import { describe, expect, test } from 'bun:test'
import { read } from './fixtures.ts'

describe('a request is refused that lacks', () => {
  test.each([
    ['the audio of a content', { role: 'user', content: [{ type: 'input_audio' }] }, 'content[0].input_audio'],
    ['the id of a referenced item', { type: 'item_reference' }, 'id'],
  ])('%s', (_, item, path) => {
    expect(() => read({ input: [item] })).toThrow(`input[0].${path}: is required`)
  })
})
