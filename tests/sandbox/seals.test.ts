import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonical } from '../../src/json/parse.ts'
import { sign, verify } from '../../src/providers/sandbox/seals.ts'

test('a signature is plain base64 and the same every time', () => {
  const signature = sign('reasoning', 'Let me think.', 'messages')
  expect(signature).toBe(sign('reasoning', 'Let me think.', 'messages'))
  expect(Buffer.from(signature, 'base64').toString('base64')).toBe(signature)
})

test('it verifies with its subject, without one, and in the other base64 alphabet', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const signature = sign('reasoning', text, 'messages')
      expect(verify(signature, 'reasoning', text, 'messages')).toBeUndefined()
      expect(verify(signature, 'reasoning', undefined, 'messages')).toBeUndefined()
      expect(verify(signature.replaceAll('+', '-').replaceAll('/', '_'), 'reasoning', text, 'messages')).toBeUndefined()
    }),
  )
})

test('another text, kind, maker or any altered character is found', () => {
  const signature = sign('reasoning', 'a', 'messages')
  expect(verify(signature, 'reasoning', 'b', 'messages')).toContain('does not fit')
  expect(verify(signature, 'call', 'a', 'messages')).toContain('does not belong')
  expect(verify(signature, 'reasoning', 'a', 'responses')).toContain('another model')
  expect(verify('', 'reasoning', 'a', 'messages')).toContain('no signature')
  for (let i = 0; i < signature.length; i++) {
    const altered = signature.slice(0, i) + (signature[i] === 'A' ? 'B' : 'A') + signature.slice(i + 1)
    expect(verify(altered, 'reasoning', 'a', 'messages')).toBeDefined()
  }
})

test('arguments compare by value', () => {
  expect(canonical('{"b": 1, "a": [2, {"d":1,"c":2}]}')).toBe(canonical('{"a":[2,{"c":2,"d":1}],"b":1}'))
  expect(canonical('{"b":')).toBe('{"b":')
})
