import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { canonical } from '../../src/json/parse.ts'
import { sign, signatureDefect } from '../../src/providers/sandbox/signatures.ts'

test('a signature is base64 and deterministic', () => {
  const signature = sign('reasoning', 'Let me think.', 'messages')
  expect(signature).toBe(sign('reasoning', 'Let me think.', 'messages'))
  expect(Buffer.from(signature, 'base64').toString('base64')).toBe(signature)
})

test('a signature verifies with its subject, without one, and in the URL-safe alphabet', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const signature = sign('reasoning', text, 'messages')
      expect(signatureDefect(signature, 'reasoning', text, 'messages')).toBeUndefined()
      expect(signatureDefect(signature, 'reasoning', undefined, 'messages')).toBeUndefined()
      expect(
        signatureDefect(signature.replaceAll('+', '-').replaceAll('/', '_'), 'reasoning', text, 'messages'),
      ).toBeUndefined()
    }),
  )
})

test('another text, kind or issuer and any altered character are detected', () => {
  const signature = sign('reasoning', 'a', 'messages')
  expect(signatureDefect(signature, 'reasoning', 'b', 'messages')).toContain(
    'does not match the reasoning it came with',
  )
  expect(signatureDefect(signature, 'call', 'a', 'messages')).toContain('does not sign a call')
  expect(signatureDefect(signature, 'reasoning', 'a', 'responses')).toContain('was altered or issued by another model')
  expect(signatureDefect('', 'reasoning', 'a', 'messages')).toContain('was not issued by this model')
  for (let i = 0; i < signature.length; i++) {
    const altered = signature.slice(0, i) + (signature[i] === 'A' ? 'B' : 'A') + signature.slice(i + 1)
    expect(signatureDefect(altered, 'reasoning', 'a', 'messages')).toBeDefined()
  }
})

test('JSON arguments are compared by value', () => {
  expect(canonical('{"b": 1, "a": [2, {"d":1,"c":2}]}')).toBe(canonical('{"a":[2,{"c":2,"d":1}],"b":1}'))
  expect(canonical('{"b":')).toBe('{"b":')
})
