import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { bodyText } from '../../src/http/encode-request.ts'
import { type BodyScan, scanBody } from '../../src/json/body-scan.ts'
import { splice } from '../../src/json/edit.ts'
import { spliceBytes } from '../../src/json/splice-bytes.ts'
import { LIMITS } from './limits.ts'
import { spaced, spaces } from './spaced.ts'
import { runs } from '../runs.ts'

const NAMES = ['a', 'b', 'model', 'é', 'toString']
const object = fc.dictionary(fc.constantFrom(...NAMES, 'x', 'y'), fc.jsonValue(), { noNullPrototype: true })
const changes = fc.dictionary(fc.constantFrom(...NAMES), fc.option(fc.jsonValue(), { nil: undefined }))

const spliced = (text: string, changed: Record<string, string | undefined>): string => {
  const bytes = Buffer.from(text)
  const scan = scanBody(bytes, LIMITS) as BodyScan | undefined
  // Names with escapes are not judged by the scan.
  fc.pre(scan !== undefined)
  return bodyText(spliceBytes(bytes, scan!.members, changed))
}

test('members of bytes are set and removed as those of a text', () => {
  fc.assert(
    fc.property(object, changes, spaces, (value, changed, space) => {
      const text = spaced(value, space)
      const texts = Object.fromEntries(
        Object.entries(changed).map(([name, one]) => [name, one === undefined ? undefined : JSON.stringify(one)]),
      )
      const written = spliced(text, texts)
      expect(JSON.parse(written)).toEqual(JSON.parse(splice(text, texts)))
      const isRemoving = Object.entries(texts).some(([name, one]) => one === undefined && name in value)
      if (!isRemoving && Object.keys(value).length > 0) expect(written.length).toBe(splice(text, texts).length)
    }),
    { numRuns: runs(600, 2000) },
  )
})

test('bytes outside the changed members stay as they are', () => {
  const text = '{ "n" : 12345678901234567890 ,\n "model":"a" , "f": 1.0 }'
  expect(spliced(text, { model: '"b"' })).toBe('{ "n" : 12345678901234567890 ,\n "model":"b" , "f": 1.0 }')
  expect(spliced(text, { model: undefined })).toBe('{"n" : 12345678901234567890,"f": 1.0}')
  expect(spliced('{}', { model: '"b"' })).toBe('{"model":"b"}')
  expect(spliced('{ "a":1 }', { a: undefined })).toBe('{}')
})
