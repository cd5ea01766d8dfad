import { describe, expect, test } from 'bun:test'
import { protocols } from '../../src/protocols/index.ts'
import { lose, lossesHeader } from '../../src/protocols/losses.ts'
import { LossReport, type Loss } from '../../src/protocols/translation.ts'
import { eventsOf } from '../translating.ts'
import { CLIENTS, contextOf, responseWith, TEXT } from './response-losses.ts'

describe.each(CLIENTS)('the report in a stream for a client of %s', (client) => {
  const framesOf = (isRequested: boolean, losses: LossReport): unknown[] => {
    const context = { ...contextOf(client, isRequested), losses }
    const writer = protocols[client].serve.writer(context)
    return responseWith([TEXT])
      .flatMap((event) => writer.write(event))
      .filter(({ data }) => data !== '[DONE]')
      .map(({ data }) => JSON.parse(data) as unknown)
  }
  const reportingFrames = (frames: unknown[]): number[] =>
    frames.flatMap((frame, index) => (JSON.stringify(frame).includes('"sluice"') ? [index] : []))

  test('is in one frame if requested, even without losses', () => {
    const report = new LossReport()
    report.add('unsupported_field', 'x')
    expect(reportingFrames(framesOf(false, report))).toEqual([])
    const frames = framesOf(true, new LossReport())
    expect(reportingFrames(frames)).toEqual([client === 'messages' ? frames.length - 2 : frames.length - 1])
    expect(JSON.stringify(frames)).toContain('"sluice":{"translation":[]}')
  })
})

test('the same loss is reported once, and none without a translation', () => {
  const context = contextOf('chat.completions')
  for (const reason of ['a', 'a', 'b']) lose(context, 'response_field_dropped', 'x', reason)
  expect(context.losses!.losses).toHaveLength(2)
  const { losses: _, ...withoutTranslation } = context
  lose(withoutTranslation, 'response_field_dropped', 'x', 'a')
  expect('losses' in withoutTranslation).toBe(false)
})

test('at most a thousand losses of a response are reported', () => {
  const context = contextOf('chat.completions')
  for (let n = 0; n < 3_000; n++) lose(context, 'response_field_dropped', `${n}`)
  expect(context.losses!.losses).toHaveLength(1_000)
})

test('the header text of losses is ASCII and bounded for any field names', () => {
  const losses = Array.from(
    { length: 500 },
    (_, index): Loss => ({
      code: 'unsupported_field',
      path: `é${index}`.padEnd(400, '😀'),
      effect: 'dropped',
      reason: 'y',
    }),
  )
  const text = lossesHeader(losses)
  expect(text.length).toBeLessThanOrEqual(4_000)
  expect(text).toMatch(/^[\x20-\x7e]*$/)
  expect((JSON.parse(text) as Loss[])[0]!.path.startsWith('é0')).toBe(true)
})

test('the details of a refusal are read from a response of the messages API', () => {
  const body = {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: 'refusal',
    stop_sequence: null,
    stop_details: { type: 'refusal', category: 'cyber' },
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  expect(eventsOf('messages', body).at(-1)).toMatchObject({
    reason: 'refusal',
    details: { category: 'cyber' },
  })
  expect(eventsOf('messages', { ...body, stop_details: null }).at(-1)).toEqual({
    type: 'finish',
    reason: 'refusal',
    raw: 'refusal',
  })
})
