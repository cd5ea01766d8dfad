import { describe, expect, test } from 'bun:test'
import { allDisjoint, intersect } from '../../../src/protocols/schema/intersect.ts'
import { SchemaBudget, type Schema } from '../../../src/protocols/schema/schema.ts'

/** One schema for what two schemas accept, and schemas that accept nothing in common. */

const A = { type: 'string' }
const closed = (properties: Schema): Schema => ({ properties, additionalProperties: false })

type Joined = [first: Schema, second: Schema, both: Schema | undefined]

const JOINED: Joined[] = [
  [{ type: 'number' }, { type: 'integer' }, { type: 'integer' }],
  [{ type: ['string', 'number'] }, { type: ['integer', 'string'] }, { type: ['string', 'integer'] }],
  [{ type: ['integer', 'number'] }, { type: ['number', 'integer'] }, { type: ['integer', 'number'] }],
  [{ type: 'string' }, { type: 'number' }, undefined],
  [
    { minimum: 1, maxLength: 5 },
    { minimum: 3, maxLength: 3 },
    { minimum: 3, maxLength: 3 },
  ],
  [
    { minimum: 3, maxLength: 3 },
    { minimum: 1, maxLength: 5 },
    { minimum: 3, maxLength: 3 },
  ],
  ...['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'].map(
    (keyword): Joined => [{ [keyword]: 1 }, { [keyword]: 3 }, { [keyword]: 3 }],
  ),
  ...['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'].map(
    (keyword): Joined => [{ [keyword]: 1 }, { [keyword]: 3 }, { [keyword]: 1 }],
  ),
  ...['if', 'then', 'else', 'minContains', 'maxContains', 'unevaluatedItems'].map(
    (keyword): Joined => [{ contains: A, [keyword]: A }, { [keyword]: A }, undefined],
  ),
  [{ contains: A, if: A }, { contains: A }, undefined],
  [{ type: 'string' }, { type: 5 }, undefined],
  [{ minimum: '1' }, { minimum: 3 }, undefined],
  [{ pattern: 'a' }, { pattern: 'a', minLength: 1 }, { pattern: 'a', minLength: 1 }],
  [{ pattern: 'a' }, { pattern: 'b' }, undefined],
  [{ required: ['a'] }, { required: ['b', 'a'] }, { required: ['a', 'b'] }],
  [{ enum: [1, { a: 1 }] }, { enum: [{ a: 1 }, 2] }, { enum: [{ a: 1 }] }],
  [{ enum: [1] }, { enum: [2] }, undefined],
  [{ const: { a: [1] } }, { const: { a: [1] } }, { const: { a: [1] } }],
  [{ const: { a: [1] } }, { const: { a: [1, 2] } }, undefined],
  [{ const: 1 }, { enum: [2, 1] }, { enum: [1] }],
  [{ enum: [2, 1] }, { const: 3 }, undefined],
  [{ description: 'A' }, { description: 'B', title: 'T' }, { description: 'A', title: 'T' }],
  [{ properties: { a: true, b: A } }, { properties: { a: A, b: true } }, { properties: { a: A, b: A } }],
  [{ properties: { a: false } }, { properties: { a: A } }, undefined],
  [{ properties: { a: A } }, { properties: { a: { pattern: 'x' } } }, { properties: { a: { ...A, pattern: 'x' } } }],
  [closed({ a: A }), closed({ a: { pattern: 'x' } }), closed({ a: { ...A, pattern: 'x' } })],
  [closed({ a: A }), closed({ b: A }), undefined],
  [closed({ a: A, b: A }), closed({ a: A }), undefined],
  [closed({ a: A }), closed({ a: A, b: A }), undefined],
  [closed({ a: A }), { minProperties: 1 }, { ...closed({ a: A }), minProperties: 1 }],
  [
    { properties: { a: A }, additionalProperties: true },
    { properties: { b: A } },
    { properties: { a: A, b: A }, additionalProperties: true },
  ],
  [{ patternProperties: { x: A }, additionalProperties: true }, { properties: { b: A } }, undefined],
  [{ items: A }, { items: { type: 'string' }, minItems: 1 }, { items: A, minItems: 1 }],
  [{ items: A }, { items: { type: 'number' } }, undefined],
  [{ items: A }, { items: A, prefixItems: [A] }, undefined],
  [{ items: A, unevaluatedItems: false }, { unevaluatedItems: false }, undefined],
  [{ contains: A }, { minContains: 2 }, undefined],
  [{ contains: A }, { minItems: 2 }, { contains: A, minItems: 2 }],
  [
    { contains: A, minContains: 2 },
    { contains: A, minContains: 2 },
    { contains: A, minContains: 2 },
  ],
]

test.each(JOINED)('%j and %j are %j', (first, second, both) => {
  const before = JSON.stringify([first, second])
  expect<unknown>(intersect(first, second, new SchemaBudget())).toEqual(both)
  expect(JSON.stringify([first, second])).toBe(before)
})

describe('schemas without a value in common', () => {
  const kind = (value: number, more: Schema = {}): Schema => ({
    type: 'object',
    properties: { k: { const: value } },
    required: ['k'],
    ...more,
  })
  test.each<[schemas: unknown[], disjoint: boolean]>([
    [[A, { type: 'number' }, { type: 'null' }], true],
    [[{ type: 'integer' }, { type: 'number' }], false],
    [[{ const: 1 }, { enum: [2, 3] }], true],
    [[{ const: 1 }, { enum: [1, 3] }], false],
    [[{ type: 'integer', const: 1 }, { type: 'integer', enum: [2] }, { type: 'null' }], true],
    [[{ type: 'integer', const: 1 }, { type: 'integer', enum: [1] }, { type: 'null' }], false],
    [[{ type: 'integer', enum: [1, 2] }, { type: 'integer', enum: [2] }, { type: 'null' }], false],
    [[{ type: 'integer', const: 1 }, { type: 'integer' }], false],
    [[kind(1), kind(2), A], true],
    [[kind(1), kind(2), kind(1)], false],
    [[kind(1), kind(2, { required: [] })], false],
    [[kind(1, { required: [] }), kind(2)], false],
    [[kind(1), { ...kind(2), properties: { j: { const: 2 } } }], false],
    [[kind(1), kind(2, { type: undefined })], false],
    [[A, true], false],
  ])('%j: %p', (schemas, disjoint) => {
    expect(allDisjoint(schemas, new SchemaBudget())).toBe(disjoint)
  })
})
