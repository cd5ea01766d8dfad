import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { type BodyScan, scanBody } from '../../src/json/body-scan.ts'
import { bodyBytes, parseRawRequest, rawRequestOf, receivedBody } from '../../src/protocols/raw-request.ts'
import type { ScannedBody } from '../../src/protocols/protocol.ts'
import { LIMITS } from '../json/limits.ts'

/** Bodies as they are received, with and without a scan. */

const HEADERS = new Headers({ 'x-test': '1' })
const TEXT = '{"model":"a/b", "messages":["é"]}'

const scanned = (text: string, parse?: (body: ScannedBody) => Record<string, unknown>) => {
  const bytes = Buffer.from(text)
  const received = receivedBody(bytes, scanBody(bytes, LIMITS) as BodyScan, LIMITS)
  return rawRequestOf(received, HEADERS, { model: 'from/path', stream: true }, parse)
}

test.each([
  ['', 'is empty: send a JSON object'],
  [' \n', 'is empty: send a JSON object'],
  ['null', 'must be a JSON object'],
  ['5', 'must be a JSON object'],
  ['[]', 'must be a JSON object'],
  ['{"a":1', ''],
  ['{"a":{"a":{}}}', 'nested'],
])('the body %j is refused with 400', (text, problem) => {
  try {
    parseRawRequest(text, HEADERS, undefined, 2)
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    const { status, param, message } = error as GatewayError
    expect([status, param]).toEqual([400, 'body'])
    expect(message).toContain(problem)
    return
  }
  throw new Error('nothing was refused')
})

test('a body that its scan refused is a 400 with the reason of the scan', () => {
  expect(() => receivedBody(Buffer.from('{}'), 'is too much', LIMITS)).toThrow('body: is too much')
})

test('a body without a scan is parsed at once, up to the depth of the limits', () => {
  const bytes = Buffer.from(TEXT)
  const request = rawRequestOf({ bytes, scan: undefined, maxDepth: 5 }, HEADERS, { stream: true })
  expect(request).toMatchObject({ body: { model: 'a/b', messages: ['é'] }, text: TEXT, stream: true })
  expect(bodyBytes(request)).toBe(bytes.length)
  expect(() => rawRequestOf({ bytes, scan: undefined, maxDepth: 1 }, HEADERS)).toThrow('body')
})

describe('a scanned body', () => {
  test('is parsed once, when something reads it, beside the members of the path', () => {
    const seen: string[] = []
    const request = scanned(TEXT, ({ bytes }) => {
      seen.push(bytes.toString())
      return { parsed: true }
    })
    expect([request.model, request.stream, request.headers.get('x-test')]).toEqual(['from/path', true, '1'])
    expect([bodyBytes(request), seen]).toEqual([Buffer.byteLength(TEXT), []])
    expect([request.body, request.body]).toEqual([{ parsed: true }, { parsed: true }])
    expect([seen, request.text]).toEqual([[TEXT], TEXT])
    expect(scanned(TEXT).body).toEqual({ model: 'a/b', messages: ['é'] })
  })

  test('has another text with its old value, and another value with its old text', () => {
    const retold = scanned(TEXT)
    retold.text = '{}'
    expect([retold.text, retold.body, bodyBytes(retold)]).toEqual(['{}', { model: 'a/b', messages: ['é'] }, 2])
    expect(retold.scanned).toBeUndefined()
    const changed = scanned(TEXT)
    changed.body = { other: 1 }
    expect([changed.text, changed.body, changed.scanned]).toEqual([TEXT, { other: 1 }, undefined])
  })

  test('is read again after it was freed, unless it was replaced, and its headers are gone', () => {
    const request = scanned(TEXT)
    const { body } = request
    request.free!()
    expect(request.body).toEqual(body)
    expect(request.body).not.toBe(body)
    expect([...request.headers]).toEqual([])
    const replaced = scanned(TEXT)
    replaced.body = { other: 1 }
    replaced.free!()
    expect([replaced.text, replaced.body]).toEqual([TEXT, { other: 1 }])
  })
})
