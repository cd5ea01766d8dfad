import { describe, expect, test } from 'bun:test'
import type { GenerationEvent } from '../../../src/generation/event.ts'
import { GeminiResponseWriter } from '../../../src/protocols/gemini/write-response-stream.ts'
import { LossReport } from '../../../src/protocols/translation.ts'
import { contextOf, hello, type Json } from './building.ts'

/** Streams with long arguments of calls, which are checked while they come. */

const START: GenerationEvent = { type: 'start', id: 'up-1', model: 'up-model' }
const head = (name: string, form: 'function' | 'custom' = 'function'): GenerationEvent => ({
  type: 'part-start',
  part: 0,
  head: { type: 'tool-call', id: 'c', name, form },
})

/** The chunk of a call whose arguments come in pieces of this length, the losses, and the time for its end. */
function written(args: string, { length = 4_000, name = 'f', form = 'function' as 'function' | 'custom' } = {}) {
  const losses = new LossReport()
  const issuer = { provider: 'p', model: 'm' }
  const writer = new GeminiResponseWriter({ ...contextOf(hello(), { issuer }), losses })
  const frames = [START, head(name, form)].flatMap((event) => writer.write(event))
  for (let at = 0; at < args.length; at += length)
    frames.push(...writer.write({ type: 'part-delta', part: 0, text: args.slice(at, at + length) }))
  expect(frames).toEqual([])
  const before = performance.now()
  const [frame] = writer.write({ type: 'part-end', part: 0 })
  const ms = performance.now() - before
  const part = frame === undefined ? undefined : partOf(frame.data)
  return { data: frame?.data, part, paths: losses.losses.map(({ path }) => path), ms }
}
const partOf = (data: string): Json => (JSON.parse(data) as Json).candidates[0].content.parts[0]

const LONG = { rows: Array.from({ length: 3_000 }, (_, n) => ({ id: n, name: `row "${n}" \\ \u{1f600}` })), n: 1.5 }

describe('long arguments of a call', () => {
  test('arrive as they were sent, in pieces of any length, with the members around them', () => {
    const args = JSON.stringify(LONG, null, 1)
    for (const length of [1, 999, 40_000, args.length]) {
      const { part, data, paths } = written(args, { length, name: '"args":{}$&' })
      expect(part!.functionCall).toEqual({ id: 'c', name: '"args":{}$&', args: LONG })
      expect(part!.thoughtSignature).toBeString()
      expect(data).not.toContain('\n')
      expect(paths).toEqual([])
    }
  })

  test('keep the spelling of their numbers', () => {
    const args = `{"n":12345678901234567890,"m":0.10,"text":"${'x'.repeat(40_000)}"}`
    expect(written(args).data).toContain('"args":{"n":12345678901234567890,"m":0.10,')
  })

  test('leave no call where they are cut or invalid, which is reported', () => {
    const args = JSON.stringify(LONG)
    for (const broken of [args.slice(0, -1), `${args}}`, `${args.slice(0, -1)},}`, `[${args}]`]) {
      const { part, paths } = written(broken)
      expect(part).toBeUndefined()
      expect(paths).toEqual(['response.tool_calls.arguments'])
    }
  })

  test('of a custom tool are one text', () => {
    const input = 'free "text"\n'.repeat(5_000)
    expect(written(input, { form: 'custom' }).part!.functionCall.args).toEqual({ input })
  })

  test('do not hold up the event loop at their end: that takes less than parsing them', () => {
    const args = JSON.stringify({ rows: Array.from({ length: 80_000 }, (_, n) => ({ id: n, name: `row ${n}` })) })
    const parsing: number[] = []
    const ending: number[] = []
    for (let n = 0; n < 7; n++) {
      ending.push(written(args).ms)
      const before = performance.now()
      JSON.parse(args)
      parsing.push(performance.now() - before)
    }
    expect(Math.min(...ending)).toBeLessThan(Math.min(...parsing) / 2)
  })
})
