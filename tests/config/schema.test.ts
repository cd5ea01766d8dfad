import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Ajv from 'ajv'
import { parse } from 'yaml'
import { fileSchema } from '../../src/config/schema.ts'
import { readConfig } from '../../src/config/load.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'

const root = join(import.meta.dir, '../..')
const published = join(root, 'sluice.schema.json')
const example = readFileSync(join(root, 'sluice.example.yaml'), 'utf8')

// WRITE_SCHEMA=1 bun test tests/config/schema.test.ts regenerates the file.
if (process.env.WRITE_SCHEMA !== undefined) writeFileSync(published, `${JSON.stringify(fileSchema(), null, 2)}\n`)

const validator = () => new Ajv({ allowUnionTypes: true }).compile(fileSchema())

test('the published schema equals the one that the reader is built from', () => {
  expect(JSON.parse(readFileSync(published, 'utf8'))).toEqual(JSON.parse(JSON.stringify(fileSchema())))
})

test('the example is valid against the schema', () => {
  const validate = validator()
  expect({ valid: validate(parse(example)), errors: validate.errors }).toEqual({ valid: true, errors: null })
})

test('the schema refuses what the reader refuses', () => {
  const validate = validator()
  for (const wrong of [
    { listen: { prot: 1 } },
    { limits: { body: 5 } },
    { providers: { Acme: {} } },
    { models: { a: { endpoints: [] } } },
    { timeouts: { idle: 'soon' } },
    { keys: [{}] },
    { providers: { acme: { quirks: { systemRole: 'user' } } } },
  ]) {
    expect([wrong, validate(wrong)]).toEqual([wrong, false])
  }
})

test('the example loads, and its models are in the catalogue', () => {
  const catalogue = new Catalogue(readConfig(example, 'sluice.example.yaml', {}))
  expect(catalogue.endpoints('fast', 'messages').map(({ provider, target }) => [provider.id, target.model])).toEqual([
    ['workshop', 'qwen3-8b'],
  ])
  expect(catalogue.endpoints('acme/large', 'messages')[0]!.target.capabilities.maxOutputTokens).toBe(32000)
})

test('every setting of the schema is in the example and in docs/configuration.md', () => {
  const manual = readFileSync(join(root, 'docs/configuration.md'), 'utf8')
  const { properties } = fileSchema() as {
    properties: Record<
      string,
      { properties?: Record<string, unknown>; additionalProperties?: { properties?: Record<string, unknown> } }
    >
  }
  for (const [name, setting] of Object.entries(properties)) {
    expect(example).toContain(`${name}:`)
    for (const inner of Object.keys(setting.properties ?? setting.additionalProperties?.properties ?? {}))
      expect(manual).toContain(`\`${inner}\``)
  }
})
