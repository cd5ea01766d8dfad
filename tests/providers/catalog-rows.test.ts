import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { modelNameProblem } from '../../src/config/model-settings.ts'
import { fileSchema } from '../../src/config/schema.ts'
import { AUTHS, baseUrlProblem, PROVIDER_ID } from '../../src/config/provider-settings.ts'
import { API_NAMES, MODALITIES, QUIRK_VALUES } from '../../src/config/provider-terms.ts'
import { MODEL_ROWS, PROVIDER_ROWS, type FamilyRow } from '../../src/providers/catalog-rows.ts'
import modelsFile from '../../catalog/models.json'

/** The data files of the catalogue: complete, consistent and documented. */

const CAPABILITY_NAMES = Object.keys(
  (
    fileSchema() as {
      properties: { models: { additionalProperties: { properties: { capabilities: { properties: object } } } } }
    }
  ).properties.models.additionalProperties.properties.capabilities.properties,
)

describe('the rows of the catalogue', () => {
  test('provider ids are unique and each row is complete', () => {
    expect(new Set(PROVIDER_ROWS.map(({ id }) => id)).size).toBe(PROVIDER_ROWS.length)
    for (const row of PROVIDER_ROWS) {
      const seen = {
        id: PROVIDER_ID.test(row.id),
        name: row.name.length > 0,
        docs: /^(https:\/\/|docs\/)/.test(row.docs),
        auth: AUTHS.includes(row.auth),
        protocols: row.protocols.length > 0,
      }
      expect([row.id, seen]).toEqual([row.id, { id: true, name: true, docs: true, auth: true, protocols: true }])
      for (const { protocol, auth } of row.protocols)
        expect([row.id, API_NAMES.includes(protocol), auth === undefined || AUTHS.includes(auth)]).toEqual([
          row.id,
          true,
          true,
        ])
      if (row.baseUrl !== undefined)
        expect([row.id, baseUrlProblem(row.baseUrl), row.baseUrl.endsWith('/')]).toEqual([row.id, undefined, false])
      expect([row.id, row.inProcess !== undefined || row.local !== undefined || row.keyVariables.length > 0]).toEqual([
        row.id,
        true,
      ])
      expect([row.id, row.baseUrl !== undefined || row.baseUrlVariable !== undefined]).toEqual([row.id, true])
    }
  })

  test('every quirk is a known flag with an accepted value, a reason and a month', () => {
    for (const row of PROVIDER_ROWS)
      for (const [name, quirk] of Object.entries(row.quirks)) {
        const values: readonly unknown[] | undefined = QUIRK_VALUES[name as keyof typeof QUIRK_VALUES]
        expect([
          row.id,
          name,
          [quirk!.value].flat().every((value) => values?.includes(value)),
          quirk!.why.length > 20,
          /^20\d\d-\d\d$/.test(quirk!.seen),
        ]).toEqual([row.id, name, true, true, true])
      }
  })

  test('media facts are of the protocols of the provider, with known kinds and types, sources and a month', () => {
    const rows = PROVIDER_ROWS.flatMap(({ id, protocols, media }) =>
      media === undefined ? [] : [{ id, protocols: protocols.map(({ protocol }) => protocol), media }],
    )
    expect(rows.length).toBeGreaterThan(5)
    for (const {
      id,
      protocols,
      media: { requestBytes, sources, seen, ...byProtocol },
    } of rows) {
      const unknownProtocols = Object.keys(byProtocol).filter((protocol) => !(protocols as string[]).includes(protocol))
      const accepted = Object.values(byProtocol)
      const unknownKinds = accepted
        .flatMap(({ fetches }) => fetches ?? [])
        .filter((kind) => !['image', 'audio', 'video', 'file'].includes(kind))
      const unknownTypes = accepted
        .flatMap(({ inline }) => inline ?? [])
        .filter((type) => !/^(image|audio|video|text|application)\/[\w.*+-]+$/.test(type))
      expect([
        id,
        unknownProtocols,
        unknownKinds,
        unknownTypes,
        requestBytes === undefined || requestBytes >= 2 ** 20,
        sources.every((source) => /^(https:\/\/|docs\/)/.test(source)),
        sources.length > 0,
        /^\d{4}-\d{2}$/.test(seen),
      ]).toEqual([id, [], [], [], true, true, true, true])
    }
  })

  test('every model has a valid name and an existing provider; one written by hand has a release date', () => {
    expect(new Set(MODEL_ROWS.map(({ id }) => id)).size).toBe(MODEL_ROWS.length)
    for (const row of MODEL_ROWS) {
      const providers = row.endpoints?.map(({ provider }) => provider) ?? [row.id.split('/')[0]!]
      const dated = row.onlyImported === true ? row.released === undefined : Date.parse(row.released ?? '') > 0
      expect([
        row.id,
        modelNameProblem(row.id),
        dated,
        row.contextLength === undefined || row.contextLength > 1000,
      ]).toEqual([row.id, undefined, true, true])
      for (const provider of providers) expect(PROVIDER_ROWS.map(({ id }) => id)).toContain(provider)
    }
  })

  test('every family has existing providers and known capabilities', () => {
    const kinds: readonly string[] = MODALITIES
    for (const { match, capabilities } of modelsFile.families as FamilyRow[]) {
      for (const kind of [...(capabilities.input ?? []), ...(capabilities.output ?? [])]) expect(kinds).toContain(kind)
      for (const pattern of match)
        if (!pattern.startsWith('*')) expect(PROVIDER_ROWS.map(({ id }) => id)).toContain(pattern.split('/')[0]!)
      for (const name of Object.keys(capabilities)) expect(CAPABILITY_NAMES).toContain(name)
    }
  })
})

test('the manual names every provider, every variable and every quirk', () => {
  const manual = readFileSync(join(import.meta.dir, '../../docs/providers.md'), 'utf8')
  for (const { id, keyVariables, baseUrlVariable, local } of PROVIDER_ROWS) {
    for (const name of [id, ...keyVariables, baseUrlVariable?.name, local?.search?.hostVariable])
      if (name !== undefined) expect(manual).toContain(`\`${name}\``)
  }
  for (const name of Object.keys(QUIRK_VALUES)) expect(manual).toContain(`| \`${name}\` |`)
})
