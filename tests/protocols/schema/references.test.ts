import { describe, expect, test } from 'bun:test'
import { inlined } from '../../../src/protocols/schema/references.ts'
import { SchemaBudget } from '../../../src/protocols/schema/schema.ts'
import { anthropicResponse, anthropicTool, geminiTool, newTranslation, openaiTool, refusalOf } from './targets.ts'

/** References in schemas for each provider. */

describe('references', () => {
  const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } }
  const people = {
    type: 'object',
    properties: {
      a: { $ref: '#/$defs/a~1b%20c' },
      b: { $ref: '#/definitions/B', description: 'beside' },
      c: { $ref: '#there' },
      $ref: { type: 'string' },
    },
    $defs: { 'a/b c': { type: 'integer' }, C: { $anchor: 'there', type: 'null' } },
    definitions: { B: { type: 'string', description: 'inside' } },
  }

  test('are carried if the provider accepts them, otherwise replaced by their targets', () => {
    const resolved = {
      type: 'object',
      properties: {
        a: { type: 'integer' },
        b: { type: 'string', description: 'beside' },
        c: { type: 'null' },
        $ref: { type: 'string' },
      },
    }
    expect(openaiTool(people)).toEqual({ schema: people, losses: [] })
    expect(anthropicTool(people)).toEqual({ schema: people, losses: [] })
    expect(geminiTool(people)).toEqual({ schema: resolved, losses: [] })
    expect(anthropicResponse(people).schema).toEqual({ ...resolved, additionalProperties: false })
  })

  test('at the root are replaced, and those below keep their targets', () => {
    const list = { $ref: '#/$defs/Node', $defs: { Node: node } }
    for (const write of [openaiTool, anthropicTool])
      expect(write(list)).toEqual({ schema: { ...node, $defs: { Node: node } }, losses: [] })
    expect(geminiTool(list)).toEqual({ schema: { ...node, $defs: { Node: node } }, losses: [] })
    const itself = { type: 'object', properties: { list: { type: 'array', items: { $ref: '#' } } } }
    expect(openaiTool(itself).schema).toEqual(itself)
    expect(geminiTool(itself).schema).toEqual({
      ...itself,
      properties: { list: { type: 'array', items: { $ref: '#/$defs/Root' } } },
      $defs: { Root: { ...itself, properties: { list: { type: 'array', items: { $ref: '#/$defs/Root' } } } } },
    })
  })

  test('that recurse without end, or have no target, are refused with their path if the provider refuses them', () => {
    const endless = {
      type: 'object',
      properties: { tree: { $ref: '#/$defs/Node' } },
      $defs: { Node: { ...node, required: ['next'] } },
    }
    const outside = { type: 'object', properties: { a: { $ref: 'https://example.com/a.json' } } }
    expect(refusalOf(() => geminiTool(endless))).toStartWith(
      '$defs.Node: must not refer to itself through required values',
    )
    expect(
      refusalOf(() =>
        anthropicResponse({ type: 'object', properties: { tree: { $ref: '#/$defs/Node' } }, $defs: { Node: node } }),
      ),
    ).toStartWith('$defs.Node: must not refer to itself, since the provider of this model accepts no recursive schemas')
    for (const schema of [endless, outside])
      for (const write of [openaiTool, anthropicTool]) expect(write(schema)).toEqual({ schema, losses: [] })
    for (const write of [geminiTool, anthropicResponse])
      expect(refusalOf(() => write(outside))).toBe(
        'properties.a.$ref: must refer to a definition within the schema (#/$defs/...), ' +
          "not 'https://example.com/a.json'",
      )
  })

  test('through the items of a list are kept where it may be empty, and those of a scope are refused', () => {
    const tree = (more: object) => ({
      type: 'object',
      properties: { tree: { $ref: '#/$defs/Tree' } },
      $defs: { Tree: { type: 'array', items: { $ref: '#/$defs/Tree' }, ...more } },
    })
    for (const more of [{}, { minItems: 0 }]) expect(geminiTool(tree(more)).schema).toMatchObject(tree({}))
    expect(refusalOf(() => geminiTool(tree({ minItems: 1 })))).toContain('through required values')
    for (const keyword of ['$dynamicRef', '$recursiveRef']) {
      const scoped = { type: 'object', properties: { a: { [keyword]: '#' } } }
      expect(refusalOf(() => geminiTool(scoped))).toStartWith(`properties.a.${keyword}: must be a $ref within`)
    }
  })

  test('that recurse keep the keywords beside them, in another form', () => {
    const tree = (beside: object) =>
      geminiTool({
        type: 'object',
        properties: { tree: { $ref: '#/$defs/Tree', ...beside } },
        $defs: { Tree: { type: 'object', properties: { next: { $ref: '#/$defs/Tree' } } } },
      }).schema as { properties: { tree: unknown } }
    const reference = { $ref: '#/$defs/Tree' }
    expect(tree({}).properties.tree).toEqual(reference)
    expect(tree({ description: 'D' }).properties.tree).toEqual({ description: 'D', anyOf: [reference] })
    expect(JSON.stringify(tree({ minProperties: 1 }).properties.tree)).toContain('minProperties')
  })

  test('in every branch of a union recurse without end, unless one branch is finite', () => {
    const tree = (of: object) => ({
      type: 'object',
      properties: { tree: { $ref: '#/$defs/Tree' } },
      $defs: { Tree: { type: 'object', properties: { next: of }, required: ['next'] } },
    })
    const reference = { $ref: '#/$defs/Tree' }
    for (const endless of [{ anyOf: [reference] }, { allOf: [reference] }, { oneOf: [reference] }])
      expect(refusalOf(() => geminiTool(tree(endless)))).toContain('through required values')
    expect(geminiTool(tree({ anyOf: [reference, { type: 'null' }] })).losses).toEqual([])
  })

  test('with a malformed escape have no target', () => {
    const malformed = { type: 'object', properties: { a: { $ref: '#/$defs/%E0%A4%A' } } }
    expect(refusalOf(() => geminiTool(malformed))).toStartWith('properties.a.$ref: must refer to a definition')
  })

  test('that grow a schema beyond the limits are refused', () => {
    const bomb = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/D0' } },
      $defs: Object.fromEntries(
        Array.from({ length: 30 }, (_, n) => [
          `D${n}`,
          n === 29
            ? { type: 'string' }
            : { type: 'object', properties: { a: { $ref: `#/$defs/D${n + 1}` }, b: { $ref: `#/$defs/D${n + 1}` } } },
        ]),
      ),
    }
    const heavy = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`p${n}`, { $ref: '#/$defs/Long' }])),
      $defs: { Long: { enum: ['x'.repeat(100_000)] } },
    }
    const chain = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/D0' } },
      $defs: Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`D${n}`, { $ref: `#/$defs/D${n + 1}` }])),
    }
    for (const schema of [bomb, heavy, chain])
      for (const write of [geminiTool, anthropicResponse])
        expect(refusalOf(() => write(schema))).toContain('must not grow beyond')
    // Copied names and lists count too, and the limit is for all schemas of a request together.
    const name = 'x'.repeat(100_000)
    for (const long of [
      { properties: { [name]: {} } },
      { required: [name] },
      { const: { a: name } },
      { unknownKeyword: [name] },
    ]) {
      const schema = { ...heavy, $defs: { Long: long } }
      expect(refusalOf(() => geminiTool(schema))).toContain('must not grow beyond')
    }
    const few = { type: 'object', properties: { a: { $ref: '#/$defs/Long' } }, $defs: { Long: { enum: [name] } } }
    const times = (length: number): void => {
      const one = newTranslation()
      for (let n = 0; n < length; n++) geminiTool(few, one)
    }
    expect(refusalOf(() => times(10))).toBe('no refusal')
    expect(refusalOf(() => times(11))).toContain('must not grow beyond')
    expect(refusalOf(() => inlined({ $ref: '#' }, 'none', new SchemaBudget()))).toContain('must not refer to itself')
  })
})
