import { describe, expect, test } from 'bun:test'
import { type FunctionTool, SchemaCache, type SchemaWriter } from '../../../src/protocols/schema/cache.ts'
import type { Loss } from '../../../src/protocols/translation.ts'
import { newTranslation, toolWith } from './targets.ts'

const tool = (name: string, parameters: Record<string, unknown>, strict?: boolean): FunctionTool => ({
  ...toolWith(parameters, strict),
  name,
  path: `tools[${name}]`,
})

/** A cache with a writer that counts its calls and reports one loss each. */
function counted() {
  const cache = new SchemaCache()
  let writes = 0
  const writer: SchemaWriter<{ parameters: unknown; strict: unknown }> = ({ parameters, strict }, _budget, lose) => {
    writes++
    lose({ code: 'schema_adjusted', field: 'parameters', reason: 'a test' })
    return { parameters, strict }
  }
  const write = (one: FunctionTool, translation = newTranslation()): { written: any; losses: Loss[] } => ({
    written: cache.write(writer, one, translation),
    losses: translation.report.losses,
  })
  return { write, writes: () => writes }
}

describe('the schema cache', () => {
  test('writes a schema once and reports its losses each time', () => {
    const { write, writes } = counted()
    const first = write(tool('a', { type: 'object', properties: { x: { type: 'string' } } }))
    expect(write(tool('a', { type: 'object', properties: { x: { type: 'string' } } }))).toEqual(first)
    expect(first.losses).toHaveLength(1)
    expect(writes()).toBe(1)
  })

  test('reports a remembered loss under the path of the tool at hand', () => {
    const { write } = counted()
    write(tool('a', { type: 'object' }))
    expect(write({ ...tool('a', { type: 'object' }), path: 'tools[7]' }).losses[0]!.path).toBe('tools[7]')
  })

  test('writes again where the name, strictness, a value or the order of members differ', () => {
    const { write, writes } = counted()
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
      const { written, losses } = write(one)
      expect(JSON.stringify(written.parameters)).toBe(JSON.stringify(one.parameters))
      expect([written.strict, losses[0]!.path]).toEqual([one.strict, one.path])
    }
    expect(writes()).toBe(tools.length)
  })

  test('does not remember a schema that was cut short by the budget of its request, nor a large one', () => {
    const { write, writes } = counted()
    const cut = tool('a', { type: 'object' })
    const exceeded = newTranslation()
    exceeded.schemaBudget.affords('steps', Number.MAX_SAFE_INTEGER)
    write(cut, exceeded)
    write(cut)
    const large = tool('large', { description: 'x'.repeat(130_000) })
    write(large)
    write(large)
    expect(writes()).toBe(4)
  })

  test('does not remember a small schema that is written large', () => {
    const cache = new SchemaCache()
    let writes = 0
    const writer: SchemaWriter<unknown> = () => ({ written: ++writes, long: 'x'.repeat(200_000) })
    for (let n = 0; n < 2; n++) cache.write(writer, tool('a', { type: 'object' }), newTranslation())
    expect(writes).toBe(2)
  })

  test('keeps what two writers wrote of one tool apart', () => {
    const cache = new SchemaCache()
    const one = tool('a', { type: 'object' })
    expect(cache.write(() => 'first', one, newTranslation())).toBe('first')
    expect(cache.write(() => 'second', one, newTranslation())).toBe('second')
  })

  test('forgets the oldest schemas first', () => {
    const { write, writes } = counted()
    const tools = Array.from({ length: 100 }, (_, n) => tool(`tool-${n}`, { description: 'x'.repeat(60_000) }))
    for (const one of tools) write(one)
    write(tools.at(-1)!)
    expect(writes()).toBe(100)
    write(tools[0]!)
    expect(writes()).toBe(101)
  })
})
