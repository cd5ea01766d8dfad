import { type Loss } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import type { Tool } from '../../src/generation/request.ts'
import { remembering } from '../../src/protocols/schema/remember.ts'
import { affords, bounded } from '../../src/protocols/schema/schema.ts'

// That what is written of a tool's schema is written once, and never given to a tool that differs.

type FunctionTool = Tool & { type: 'function' }
const tool = (name: string, parameters: Record<string, unknown>, strict?: boolean): FunctionTool => ({
  type: 'function',
  name,
  parameters,
  ...(strict === undefined ? {} : { strict }),
})

function counted() {
  let writes = 0
  const write = remembering(({ name, parameters, strict }: FunctionTool, losses: Loss[]) => {
    writes++
    losses.push({ field: 'tool.parameters', of: name, effect: 'approximated', why: 'a test' })
    return { parameters, strict }
  })
  const ask = (asked: FunctionTool) => {
    const losses: Loss[] = []
    return { written: write(asked, losses), losses }
  }
  return { ask, writes: () => writes }
}

describe('what becomes of a tool', () => {
  test('is written once, and its losses are told each time', () => {
    const { ask, writes } = counted()
    const first = ask(tool('a', { type: 'object', properties: { x: { type: 'string' } } }))
    expect(ask(tool('a', { type: 'object', properties: { x: { type: 'string' } } }))).toEqual(first)
    expect(first.losses).toHaveLength(1)
    expect(writes()).toBe(1)
  })

  test('is written anew where name, strictness, a value or the order of members differ', () => {
    const { ask, writes } = counted()
    const tools = [
      tool('a', { type: 'object', minProperties: 1 }),
      tool('b', { type: 'object', minProperties: 1 }),
      tool('a', { type: 'object', minProperties: 2 }),
      tool('a', { minProperties: 1, type: 'object' }),
      tool('a', { type: 'object', minProperties: 1 }, true),
      tool('a', { type: 'object', minProperties: 1 }, false),
      tool('a","a', {}),
    ]
    for (const one of tools) {
      const { written, losses } = ask(one)
      expect(JSON.stringify(written.parameters)).toBe(JSON.stringify(one.parameters))
      expect([written.strict, losses[0]!.of]).toEqual([one.strict, one.name])
    }
    expect(writes()).toBe(tools.length)
  })

  test('is not remembered where the bounds of a request cut it short, nor where it is large', () => {
    const { ask, writes } = counted()
    const cut = tool('a', { type: 'object' })
    bounded(() => {
      affords('steps', Number.MAX_SAFE_INTEGER)
      ask(cut)
    })
    ask(cut)
    const large = tool('large', { description: 'x'.repeat(70_000) })
    ask(large)
    ask(large)
    expect(writes()).toBe(4)
  })

  test('is not remembered where little became much', () => {
    let writes = 0
    const ask = remembering(() => ({ written: ++writes, long: 'x'.repeat(200_000) }))
    for (let n = 0; n < 2; n++) ask(tool('a', { type: 'object' }), [])
    expect(writes).toBe(2)
  })

  test('is forgotten, the oldest first, where there is much of it', () => {
    const { ask, writes } = counted()
    const tools = Array.from({ length: 100 }, (_, n) => tool(`tool-${n}`, { description: 'x'.repeat(60_000) }))
    for (const one of tools) ask(one)
    ask(tools.at(-1)!)
    expect(writes()).toBe(100)
    ask(tools[0]!)
    expect(writes()).toBe(101)
  })
})
