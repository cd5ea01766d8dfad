import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv2020 from 'ajv/dist/2020'
import addFormats from 'ajv-formats'
import fc from 'fast-check'
import { fold } from '../../../src/generation/event.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { sentences } from '../../grammar.ts'
import { datas, context, frames, type Any } from './kit.ts'

/** Responses to clients of the Messages API are valid by the published schemas. */

const SCHEMA = join(import.meta.dir, '../../../../shared/specs/schemas/anthropic-messages.schema.json')

/** Members that the current document requires, although real responses were recorded without them. */
const OPTIONAL = [
  'container',
  'stop_details',
  'inference_geo',
  'service_tier',
  'server_tool_use',
  'cache_creation',
  'output_tokens_details',
  'caller',
  'citations',
  'document_title',
  'context_management',
]

const lenient = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(lenient)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === 'required' && Array.isArray(inner)
        ? inner.filter((name) => !OPTIONAL.includes(name as string))
        : lenient(inner),
    ]),
  )
}

describe.skipIf(!existsSync(SCHEMA))('the published schema', () => {
  const ajv = new Ajv2020({ strict: false, logger: false })
  addFormats(ajv)
  if (existsSync(SCHEMA)) ajv.addSchema(lenient(JSON.parse(readFileSync(SCHEMA, 'utf8'))) as object, 'spec')
  const check = (name: string) => {
    const validate = ajv.compile({ $ref: `spec#/$defs/${name}` })
    return (value: unknown): void => {
      if (!validate(value)) throw new Error(`${JSON.stringify(validate.errors?.slice(0, 2))}\n${JSON.stringify(value)}`)
    }
  }

  test('accepts every response', () => {
    const valid = check('Message')
    fc.assert(
      fc.property(sentences({ errors: false }), (sentence) =>
        valid(JSON.parse(JSON.stringify(messages.serve.writeResponse(fold(sentence), context())))),
      ),
      { numRuns: 150 },
    )
    expect(() => valid({ type: 'message' })).toThrow()
  })

  test('accepts every frame of a stream', () => {
    const valid = check('AnyStreamEvent')
    fc.assert(
      fc.property(sentences({ errors: false }), (sentence) => datas(frames(sentence)).forEach(valid)),
      { numRuns: 150 },
    )
    expect(() =>
      valid({ type: 'content_block_start', index: 0, content_block: { type: 'text' } } satisfies Any),
    ).toThrow()
  })
})
