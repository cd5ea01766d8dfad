import { describe, expect, test } from 'bun:test'
import { contextOf, HELLO, type Json, sendTo } from './routes.ts'

/** Media in the results of tool calls, for a model of Google's that takes them behind the results. */

const image = (data: string): Json => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } })
const inline = (data: string): Json => ({ inlineData: { mimeType: 'image/png', data } })

/** The parts in which a Google model has these results, each of a call of one tool. */
function partsOf(...results: Json[][]): Json[] {
  const request = {
    ...HELLO.messages,
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: results.map((_, n) => ({ type: 'tool_use', id: `c${n}`, name: 'look', input: {} })),
      },
      { role: 'user', content: results.map((content, n) => ({ type: 'tool_result', tool_use_id: `c${n}`, content })) },
    ],
  }
  const { body } = sendTo('generateContent', contextOf('messages', request))
  return body.contents[2].parts.filter(({ functionResponse }: Json) => functionResponse === undefined)
}

describe('media that follow the results of tools at Google', () => {
  test('name their call where there are several', () => {
    const none = [{ type: 'text', text: 'nothing' }]
    expect(partsOf([image('AAAA'), image('AAAB')], none, [image('AAAC')])).toEqual([
      { text: 'Content returned by the tool call c0 (look):' },
      inline('AAAA'),
      inline('AAAB'),
      { text: 'Content returned by the tool call c2 (look):' },
      inline('AAAC'),
    ])
  })

  test('need no name where there is one', () => {
    expect(partsOf([image('AAAA')])).toEqual([inline('AAAA')])
  })
})
