import { expect, test } from 'bun:test'
import { ProviderCalls } from '../../src/store/provider-calls.ts'

test('the codes of failed calls are in the order of their numbers', () => {
  const calls = new ProviderCalls('acme')
  for (const error of ['overloaded', 'upstream_error', 'upstream_error', 'invalid_request'])
    calls.add({ at: 0, model: 'm', attempts: JSON.stringify([{ provider: 'acme', error }]), firstTokenMs: null })
  const { codes, minutes } = calls.result()
  expect(codes.map(({ code, requests }) => [code, requests])).toEqual([
    ['upstream_error', 2],
    ['invalid_request', 1],
    ['overloaded', 1],
  ])
  expect(minutes).toEqual([{ at: 0, requests: 4, failed: 3, wrongRequests: 1, rateLimited: 0, firstTokenMs: null }])
})
