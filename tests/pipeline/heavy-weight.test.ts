import { expect, test } from 'bun:test'
import { scanBody } from '../../src/json/body-scan.ts'
import { isHeavy } from '../../src/pipeline/heavy/weight.ts'
import type { ReceivedBody } from '../../src/protocols/raw-request.ts'

const bodyOf = (args: object): ReceivedBody => {
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify(args) } }
  const bytes = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'assistant', tool_calls: [call] }] }))
  return { bytes, scan: scanBody(bytes, { elements: 1e6, depth: 64, parts: 1e6, tools: 1e6 }) } as ReceivedBody
}

test('values in the arguments of calls make a request heavy, and text of the same length does not', () => {
  const chat = { protocol: 'chat.completions' } as const
  const numbers = { a: Array.from({ length: 100_000 }, (_, index) => index * 1.5) }
  expect(isHeavy(bodyOf(numbers), chat)).toBe(true)
  expect(isHeavy(bodyOf({ a: 'Some words in a sentence of usual length, and more. '.repeat(15_000) }), chat)).toBe(
    false,
  )
  expect(isHeavy(bodyOf({ a: numbers.a.slice(0, 10_000) }), chat)).toBe(false)
})
