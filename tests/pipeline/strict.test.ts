import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { mayEnd, mayLower, schemaGrowth } from '../../src/pipeline/strict.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'

const WITH_REFERENCE = { type: 'function', name: 'f', parameters: { $ref: '#/$defs/a', $defs: { a: {} } } }
const WITHOUT = { type: 'function', name: 'f', parameters: { type: 'object' } }

/** The growth of a body of 100 bytes at endpoints whose bodies have so many; undefined: it is not represented. */
function growth(bodies: (number | undefined)[], tool: object = WITH_REFERENCE, protocol = 'messages'): number {
  const endpoints = bodies.map((bytes) => ({ protocol, bytes })) as unknown as Endpoint[]
  const preparedRequests = {
    of({ bytes }: { bytes?: number }) {
      if (bytes === undefined) throw new GatewayError('unsupported_parameter', 'It has no such part.')
      return { body: 'x'.repeat(bytes) }
    },
  }
  const request = { protocol: 'chat.completions', tools: [tool], outputFormat: undefined }
  return schemaGrowth(request as never, 100, preparedRequests as never, endpoints)
}

describe('a request with references in its schemas', () => {
  test('grows by what its longest translation has beyond the body that is counted anyway', () => {
    expect(growth([250, 180])).toBe(150)
    expect(growth([undefined, 180])).toBe(80)
  })

  test('does not grow where it is shorter, passed on or cannot be sent', () => {
    expect(growth([50])).toBe(0)
    expect(growth([250], WITH_REFERENCE, 'chat.completions')).toBe(0)
    expect(growth([undefined])).toBe(0)
  })

  test('is one with such a schema', () => {
    expect(growth([250], WITHOUT)).toBe(0)
  })
})

const inbound = (headers: Record<string, string>, preferences: object = {}) =>
  ({ request: { headers: new Headers(headers) }, candidates: { preferences } }) as never
const lenient = { config: { strict: false } }
const strict = { 'x-sluice-strict': 'true' }

test('a response may be ended early if it is a stream of text, whose client accepts losses', () => {
  const may = (settings: object, headers = {}, app = lenient): boolean =>
    mayEnd(app as never, inbound(headers), settings as never)
  expect(may({ stream: true })).toBe(true)
  expect(may({ stream: true, outputModalities: ['text'] })).toBe(true)
  expect(may({ stream: false })).toBe(false)
  expect(may({ stream: true, outputModalities: ['text', 'audio'] })).toBe(false)
  expect(may({ stream: true }, strict)).toBe(false)
  expect(may({ stream: true }, {}, { config: { strict: true } })).toBe(false)
  expect(may({ stream: true }, { 'x-sluice-strict': 'false' }, { config: { strict: true } })).toBe(true)
})

test('an output limit may be lowered of an answer in one piece, whose client accepts losses', () => {
  const may = (settings: object, headers = {}, preferences = {}): boolean =>
    mayLower(lenient as never, inbound(headers, preferences), { stream: false, ...settings } as never)
  expect(may({})).toBe(true)
  expect(may({ reasoning: { effort: 'low' } })).toBe(true)
  expect(may({ stream: true })).toBe(false)
  expect(may({ compaction: true })).toBe(false)
  expect(may({ reasoning: { budgetTokens: 1_024 } })).toBe(false)
  expect(may({}, strict)).toBe(false)
  expect(may({}, {}, { requireParameters: true })).toBe(false)
})
