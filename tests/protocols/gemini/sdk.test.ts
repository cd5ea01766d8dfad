import { GoogleGenAI } from '@google/genai'
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/error.ts'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { writeResponse } from '../../../src/protocols/gemini/write-response.ts'
import { GeminiResponseWriter } from '../../../src/protocols/gemini/write-response-stream.ts'
import { sentences } from '../../grammar.ts'
import { contextOf } from './building.ts'

/** Responses of generateContent as Google's SDK reads them. */

test("Google's SDK reads any response, whole and streamed, and an error in a stream", async () => {
  let events: GenerationEvent[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      const context = contextOf()
      if (!new URL(request.url).pathname.endsWith(':streamGenerateContent'))
        return Response.json(writeResponse(fold(events), context))
      const writer = new GeminiResponseWriter(context)
      return new Response(
        events
          .flatMap((event) => writer.write(event))
          .map((frame) => `${frame.unprefixed === true ? '' : 'data: '}${frame.data}\n\n`)
          .join(''),
        { headers: { 'content-type': 'text/event-stream' } },
      )
    },
  })
  try {
    const { models } = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: server.url.href } })
    const request = { model: 'acme/model', contents: 'Hello' }
    for (const sample of fc.sample(sentences({ errors: false }), { numRuns: 40, seed: 7 })) {
      events = sample
      const answer = fold(events)
      const text = answer.parts
        .flatMap((one) => (one.type === 'text' || one.type === 'refusal' ? [one.text] : []))
        .join('')
      const calls = answer.parts.flatMap((one) => (one.type === 'tool-call' ? [one.id] : []))
      const whole = await models.generateContent(request)
      expect(
        whole.candidates?.[0]?.content?.parts
          ?.flatMap((one) => (one.thought === true ? [] : [one.text ?? '']))
          .join(''),
      ).toBe(text)
      expect((whole.functionCalls ?? []).map((call) => call.id)).toEqual(calls as (string | undefined)[])
      let streamed = ''
      let finish: string | undefined
      const streamedCalls: (string | undefined)[] = []
      for await (const one of await models.generateContentStream(request)) {
        streamed +=
          one.candidates?.[0]?.content?.parts
            ?.flatMap((piece) => (piece.thought === true ? [] : [piece.text ?? '']))
            .join('') ?? ''
        streamedCalls.push(...(one.functionCalls ?? []).map((call) => call.id))
        finish = one.candidates?.[0]?.finishReason
      }
      expect(streamed).toBe(text)
      expect(streamedCalls).toEqual(calls as (string | undefined)[])
      expect(finish).toBe(whole.candidates?.[0]?.finishReason)
    }
    events = [
      { type: 'start', id: 'up-1', model: 'up-model' },
      { type: 'error', error: new GatewayError('overloaded', 'Too much.') },
    ]
    const failing = async () => {
      for await (const one of await models.generateContentStream(request)) expect(one.candidates).toBeUndefined()
    }
    expect(failing()).rejects.toThrow(/Too much/)
    await failing().catch(() => undefined)
  } finally {
    await server.stop(true)
  }
})
