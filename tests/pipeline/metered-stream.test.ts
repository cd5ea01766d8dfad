import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { TranslatedOutput } from '../../src/pipeline/output.ts'
import { protocols } from '../../src/protocols/index.ts'
import { transformed } from '../../src/protocols/transforms.ts'
import { contextOf } from '../matrix/routes.ts'

test.each([
  ['passed on as they are', []],
  ['transformed', [{ type: 'unwrap' } as const]],
])('an error that the provider reported before its connection broke is the error of events that are %s', (_, undos) => {
  const reader = transformed(protocols.responses.call.reader({}, false), undos)
  const output = new TranslatedOutput(protocols.messages.serve.writer(contextOf('messages')))
  const stream = new MeteredStream(reader, output, new Meter(() => Promise.resolve(1)))
  const error = { type: 'error', code: 'rate_limit_exceeded', message: 'slow down', param: null }
  expect(stream.take([{ event: 'error', data: JSON.stringify(error) }])).toEqual([])
  const [frame] = stream.fail(new GatewayError('upstream_error', 'The connection closed.'))
  expect(JSON.parse(frame!.data).error).toMatchObject({
    type: 'rate_limit_error',
    message: expect.stringContaining('slow down'),
  })
  expect(stream.error?.code).toBe('upstream_rate_limited')
})
