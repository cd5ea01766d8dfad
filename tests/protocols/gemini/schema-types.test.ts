import { expect, test } from 'bun:test'
import { readSchema } from '../../../src/protocols/gemini/read-request-schema.ts'

test('a schema has each type of Google in lower case, and no other', () => {
  for (const type of ['STRING', 'INTEGER', 'NUMBER', 'BOOLEAN', 'ARRAY', 'OBJECT', 'NULL'])
    expect(readSchema({ type }, 'schema')).toEqual({ type: type.toLowerCase() })
  expect(() => readSchema({ type: 'ANY' }, 'schema')).toThrow('schema.type')
})
