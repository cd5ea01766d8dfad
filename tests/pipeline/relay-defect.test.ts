import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { Meter } from '../../src/ledger/meter.ts'
import type { Outcome } from '../../src/ledger/outcomes.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf } from '../matrix/routes.ts'

test('a defect while a response is written closes its generation before the client notices', async () => {
  const reader = protocols.messages.call.reader({}, false)
  const output = new TranslatedOutput(protocols['chat.completions'].serve.writer(contextOf('chat.completions')))
  const stream = new MeteredStream(reader, output, new Meter(() => Promise.resolve(1)))
  const seen: (Outcome | 'cancelled')[] = []
  const begun = { type: 'message_start', message: { id: 'msg_1', model: 'm', usage: { input_tokens: 1 } } }
  const source = {
    read: async () => Buffer.from(`data: ${JSON.stringify(begun)}\n\n`),
    cancel: () => void seen.push('cancelled'),
  }
  const framing = {
    write: () => {
      throw new Error('a defect')
    },
  }
  const close = async (outcome: Outcome): Promise<[]> => {
    await Bun.sleep(1)
    seen.push(outcome)
    return []
  }
  const relay = new Relay(source, stream, framing, close)
  expect(await relay.pull().catch(String)).toBe('Error: a defect')
  relay.cut(new GatewayError('overloaded', 'Sluice stops.'))
  expect(seen).toEqual(['cancelled', 'failed'])
})
