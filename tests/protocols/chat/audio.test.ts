import { expect, test } from 'bun:test'
import { noUsage } from '../../../src/generation/usage.ts'
import { writeResponse } from '../../../src/protocols/chat/write-response.ts'
import { contextWith, type Json } from './building.ts'

test('audio of another protocol has expired when its response is made: no request can refer to it', () => {
  const audio = { type: 'audio' as const, source: { type: 'data' as const, mediaType: 'audio/wav', data: 'AAEC' } }
  const { created, choices } = writeResponse(
    { id: 'u', model: 'm', parts: [audio], usage: noUsage(), metered: false, finish: { reason: 'stop', raw: 'STOP' } },
    contextWith(),
  ) as Json
  expect(choices[0].message.audio).toMatchObject({ data: 'AAEC', expires_at: created })
})
