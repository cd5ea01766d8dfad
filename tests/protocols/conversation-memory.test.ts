import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type BodyScan, scanBody } from '../../src/json/body-scan.ts'
import { ConversationMemory } from '../../src/protocols/conversation-memory.ts'
import { LIMITS } from '../json/limits.ts'

type Message = { role: string; content: string }

const parse = (memory: ConversationMemory, accountId: string, text: string): Record<string, unknown> => {
  const bytes = Buffer.from(text)
  return memory.parse(accountId, { bytes, scan: scanBody(bytes, LIMITS) as BodyScan })
}

const message = fc.record({
  role: fc.constantFrom('user', 'assistant'),
  content: fc.oneof(fc.constantFrom('a', 'b', 'é"\\'), fc.constant('x'.repeat(3000)), fc.string()),
})

/** One request after another: the conversation that it begins with, how much of that it keeps, and what it adds. */
const step = fc.record({
  account: fc.constantFrom('a', 'b'),
  keep: fc.nat(12),
  add: fc.array(message, { maxLength: 4 }),
  edit: fc.option(fc.nat(12), { freq: 4 }),
  model: fc.constantFrom('m', 'other'),
  tools: fc.nat(3),
  indent: fc.constantFrom(undefined, 1),
})

describe('ConversationMemory', () => {
  test('bodies are parsed as by JSON.parse, whatever was remembered before', () => {
    let shared = 0
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), fc.constantFrom(300_000, 1e9), (steps, limit) => {
        const memory = new ConversationMemory(limit)
        const seen = { a: new Set<unknown>(), b: new Set<unknown>() }
        let messages: Message[] = []
        for (const { account, keep, add, edit, model, tools, indent } of steps) {
          messages = [...messages.slice(0, keep), ...add]
          if (edit !== null && edit < messages.length)
            messages = messages.with(edit, { role: 'user', content: 'edited' })
          const value = {
            model,
            messages,
            tools: Array.from({ length: tools }, (_, i) => ({ i, text: 'y'.repeat(2000) })),
          }
          const text = JSON.stringify(value, null, indent)
          const body = parse(memory, account as 'a' | 'b', text)
          expect(body).toEqual(value)
          expect(Object.keys(body)).toEqual(Object.keys(value))
          expect(memory.bytes).toBeLessThanOrEqual(limit)
          const own = seen[account as 'a' | 'b']
          const other = seen[account === 'a' ? 'b' : 'a']
          for (const one of body.messages as Message[]) {
            // No value of one account is ever given to another.
            expect(other.has(one)).toBe(false)
            if (own.has(one)) shared++
            own.add(one)
          }
        }
      }),
      { numRuns: 600 },
    )
    expect(shared).toBeGreaterThan(50)
  })

  test('the next turn of a conversation shares the elements of the turn before', () => {
    const memory = new ConversationMemory(1e9)
    const turns = Array.from({ length: 40 }, (_, i) => ({ role: 'user', content: `${i} ${'x'.repeat(200)}` }))
    parse(memory, 'a', JSON.stringify({ model: 'm', messages: turns.slice(0, 36) }))
    const first = parse(memory, 'a', JSON.stringify({ model: 'm', messages: turns.slice(0, 38) }))
    const next = parse(memory, 'a', JSON.stringify({ model: 'longer', messages: turns, stream: true }))
    const [before, after] = [first.messages as Message[], next.messages as Message[]]
    expect(after.map((one, index) => one === before[index])).toEqual(turns.map((_, index) => index < 38))
    const edited = turns.with(20, { role: 'user', content: 'new' })
    const branch = parse(memory, 'a', JSON.stringify({ model: 'm', messages: edited }))
    expect((branch.messages as Message[]).map((one, index) => one === after[index])).toEqual(
      turns.map((_, index) => index < 20),
    )
  })

  test('what is remembered for an account, or will be because it comes again, is not new', () => {
    const memory = new ConversationMemory(1e9)
    const turns = Array.from({ length: 40 }, (_, i) => ({ role: 'user', content: `${i} ${'x'.repeat(200)}` }))
    const newBytes = (accountId: string, messages: readonly object[]): number => {
      const bytes = Buffer.from(JSON.stringify({ model: 'm', messages }))
      return memory.newBytes(accountId, { bytes, scan: scanBody(bytes, LIMITS) as BodyScan })
    }
    const lengthOf = (messages: readonly object[]): number => JSON.stringify({ model: 'm', messages }).length
    const before = turns.slice(0, 38)
    const known = JSON.stringify(before).length - 2
    expect(newBytes('a', before)).toBe(lengthOf(before))
    expect(newBytes('a', before)).toBe(lengthOf(before) - known)
    expect(newBytes('b', before)).toBe(lengthOf(before))
    const first = parse(memory, 'a', JSON.stringify({ model: 'm', messages: before })).messages
    expect(parse(memory, 'a', JSON.stringify({ model: 'm', messages: before })).messages).toBe(first)
    expect(newBytes('a', before)).toBe(lengthOf(before) - known)
    expect(newBytes('a', turns)).toBe(lengthOf(turns) - known)
    const edited = turns.with(10, { role: 'user', content: 'new' })
    expect(newBytes('a', edited)).toBe(lengthOf(edited) - (JSON.stringify(turns.slice(0, 10)).length - 2))
  })

  test('tools that came before are the same objects in another conversation of the account', () => {
    const memory = new ConversationMemory(1e9)
    const tools = Array.from({ length: 5 }, (_, i) => ({ name: `tool_${i}`, description: 'x'.repeat(1000) }))
    const toolsIn = (accountId: string, first: string, list = tools): unknown => {
      const messages = [{ role: 'user', content: first.repeat(5000) }]
      return parse(memory, accountId, JSON.stringify({ messages, tools: list })).tools
    }
    toolsIn('a', '1')
    const known = toolsIn('a', '2')
    expect(toolsIn('a', '3')).toBe(known)
    expect(toolsIn('a', '3', tools.with(4, { name: 'other', description: 'x'.repeat(1000) }))).not.toBe(known)
    expect(toolsIn('b', '3')).not.toBe(known)
    expect(toolsIn('b', '4')).not.toBe(known)
  })

  test('the conversations used last are kept within the limit', () => {
    const text = (name: string): string =>
      JSON.stringify({ messages: [{ name }, { name }, { name, text: 'x'.repeat(10_000) }] })
    const memory = new ConversationMemory(100_000)
    const twice = (name: string): object[] => {
      parse(memory, 'a', text(name))
      return parse(memory, 'a', text(name)).messages as object[]
    }
    const first = twice('first')
    twice('second')
    expect((parse(memory, 'a', text('first')).messages as object[])[2]).toBe(first[2]!)
    twice('third')
    twice('fourth')
    expect(memory.bytes).toBeLessThanOrEqual(100_000)
    expect((parse(memory, 'a', text('first')).messages as object[])[2]).not.toBe(first[2]!)
  })

  test('a conversation that comes once is not remembered', () => {
    const memory = new ConversationMemory(1e9)
    const messages = [{ text: 'x'.repeat(10_000) }]
    const text = JSON.stringify({ messages })
    const [first, second, third] = [1, 2, 3].map(() => (parse(memory, 'a', text).messages as object[])[0])
    expect(second).not.toBe(first)
    expect(third).toBe(second)
    const { bytes } = memory
    expect(bytes).toBeGreaterThan(2 * text.length)
    for (let i = 0; i < 10_000; i++) parse(memory, 'a', JSON.stringify({ messages: [{ i, text: 'x'.repeat(5_000) }] }))
    expect(memory.bytes).toBe(bytes)
  })

  test('an array with a long name is not remembered, because a memory of names would have no bound', () => {
    const arrayNamed = (name: string): ConversationMemory => {
      const memory = new ConversationMemory(1e9)
      for (let i = 0; i < 2; i++) parse(memory, 'a', JSON.stringify({ [name]: ['x'.repeat(5_000)] }))
      return memory
    }
    expect(arrayNamed('n'.repeat(64)).bytes).toBeGreaterThan(0)
    expect(arrayNamed('n'.repeat(65)).bytes).toBe(0)
  })

  test('a member named __proto__ is an ordinary member', () => {
    const text = `{"__proto__":[${Array.from({ length: 3000 }, () => '1')}],"messages":[]}`
    const body = parse(new ConversationMemory(1e9), 'a', text)
    expect(Object.keys(body)).toEqual(['__proto__', 'messages'])
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype)
  })
})
