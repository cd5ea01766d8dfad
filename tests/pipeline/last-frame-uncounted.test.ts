import { expect, test } from 'bun:test'
import { Meter } from '../../src/ledger/meter.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { TranslatedOutput } from '../../src/pipeline/output.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf } from '../matrix/routes.ts'

test('a stream without usage keeps its end where its bytes end in the same turn', async () => {
  const reader = protocols['chat.completions'].call.reader({}, false)
  const output = new TranslatedOutput(protocols.messages.serve.writer(contextOf('messages')))
  const stream = new MeteredStream(reader, output, new Meter(() => Promise.resolve(1)))
  const chunk = (choice: object): { data: string } => ({
    data: JSON.stringify({ id: 'up', model: 'm', choices: [{ index: 0, delta: {}, ...choice }] }),
  })
  stream.take([chunk({ delta: { content: 'Hi' } }), chunk({ finish_reason: 'stop' }), { data: '[DONE]' }])
  expect([stream.ended, stream.end()]).toEqual(['completed', []])
  expect((await stream.conclude()).map(({ data }) => JSON.parse(data).type)).toContain('message_stop')
})
