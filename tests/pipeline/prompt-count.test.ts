import { expect, test } from 'bun:test'
import { PromptCount } from '../../src/pipeline/prompt-count.ts'
import { readRequest } from '../../src/protocols/chat/read-request.ts'
import { parseRawRequest, readRawRequest } from '../../src/protocols/raw-request.ts'
import { READING, received } from '../json/limits.ts'

const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'All water runs to the sea.' }] })
const scanned = () => readRawRequest(READING, received(new Request('http://localhost', { method: 'POST', body })))

test('a prompt has as many tokens after its request was freed', async () => {
  for (const rawRequest of [await scanned(), parseRawRequest(body, new Headers())]) {
    const count = new PromptCount(rawRequest, readRequest, readRequest(rawRequest))
    const tokens = await count.tokens()
    expect(tokens).toBeGreaterThan(5)
    count.free(false)
    expect(await count.tokens()).toBe(tokens)
  }
})

test('freeing a request frees its values, which are read from its bytes again', async () => {
  const rawRequest = await scanned()
  const before = rawRequest.body
  new PromptCount(rawRequest, readRequest, undefined).free(true)
  expect(rawRequest.body).toBe(before)
  new PromptCount(rawRequest, readRequest, undefined).free(false)
  expect(rawRequest.body).not.toBe(before)
  expect(rawRequest.body).toEqual(before)
})

test('a body that was replaced is not freed', async () => {
  const rawRequest = await scanned()
  rawRequest.body = { model: 'other' }
  new PromptCount(rawRequest, readRequest, undefined).free(false)
  expect(rawRequest.body).toEqual({ model: 'other' })
})
