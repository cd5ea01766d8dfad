import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ModelInfo, Provider } from '@pydantic/genai-prices'
import { importModels, Refused, withImport } from '../../scripts/models.ts'
import { readConfig } from '../../src/config/load.ts'
import { Prices } from '../../src/ledger/prices.ts'
import { PROVIDER_ROWS, type ImportedModels } from '../../src/providers/catalog-rows.ts'
import modelsFile from '../../catalog/models.json'

/** Ids of the imported providers in the source, each with a model name that is accepted. */
const NAMES: Record<string, string> = {
  openai: 'gpt-9',
  anthropic: 'claude-9',
  google: 'gemini-9',
  openrouter: 'a/b',
  deepseek: 'd',
  mistral: 'm',
  'x-ai': 'grok-9',
  groq: 'g',
  together: 't',
  fireworks: 'f',
}
const PAID = { input_mtok: 1, output_mtok: 2 }

const model = (id: string, more: Partial<ModelInfo> = {}): ModelInfo => ({
  id,
  match: { equals: id },
  prices: PAID,
  ...more,
})
const sources = (openai: ModelInfo[]): Record<string, Provider> =>
  Object.fromEntries(
    Object.entries(NAMES).map(([id, name]) => [
      id,
      { id, name: id, api_pattern: '', models: id === 'openai' ? openai : [model(name)] } as Provider,
    ]),
  )

const EMPTY: ImportedModels = { source: 's', imported: 'never', changes: [], models: [] }
const take = (
  openai: ModelInfo[],
  imported = EMPTY,
  options: {
    force?: boolean
    models?: { id: string; contextLength?: number }[]
    priced?: (provider: string, name: string) => boolean
    from?: Record<string, Provider>
  } = {},
) =>
  importModels(
    options.from ?? sources(openai),
    { models: options.models ?? [], imported },
    { source: 'test 1', today: '2026-01-01', force: options.force ?? false, priced: options.priced ?? (() => true) },
  )
const openaiIds = (openai: ModelInfo[]): string[] =>
  take(openai)
    .imported.models.map(({ id }) => id)
    .filter((id) => id.startsWith('openai/'))
const refusal = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  }
  throw new Error('the import was accepted')
}

describe('the imported models', () => {
  test('have name and context length, if the source has them', () => {
    const { models } = take([model('gpt-9', { name: 'GPT-9', context_window: 5000 }), model('gpt-8')]).imported
    expect(models.slice(0, 2)).toEqual([
      { id: 'openai/gpt-8' },
      { id: 'openai/gpt-9', name: 'GPT-9', contextLength: 5000 },
    ])
    expect(models.map(({ id }) => id).slice(2)).toEqual([
      'anthropic/claude-9',
      'google/gemini-9',
      'vertex/gemini-9',
      'openrouter/a/b',
      'deepseek/d',
      'mistral/m',
      'xai/grok-9',
      'groq/g',
      'together/t',
      'fireworks/f',
    ])
  })

  test('are conversation models only', () => {
    const others = [
      model('text-embedding-9', { prices: { input_mtok: 1 } }),
      model('omni-moderation'),
      model('x-content-safety'),
      model('gpt-9-tts'),
      model('gpt-9-transcribe'),
      model('gpt-9-realtime'),
      model('gpt-image-9'),
      model('whisper-1', { prices: { input_audio_hours: 1 } }),
      model('gpt-9-instruct'),
      model('davinci'),
      model('x-embed'),
      model('ocr-pages', { prices: { output_mtok: 1, input_document_kpages: 1 } }),
      model('gone', { deprecated: true }),
      model('two words'),
      model('a:free'),
    ]
    expect(openaiIds([model('gpt-9'), ...others])).toEqual(['openai/gpt-9'])
  })

  test('exclude models without a price, which could not be billed', () => {
    expect(
      take([model('gpt-9'), model('gpt-8')], EMPTY, { priced: (_, name) => name !== 'gpt-8' }).imported.models.map(
        ({ id }) => id,
      ),
    ).not.toContain('openai/gpt-8')
  })

  test('have the name that the rule of the source matches exactly, if its own id has no price', () => {
    const found = take(
      [model('gpt-9', { match: { or: [{ starts_with: 'gpt-9-' }, { equals: 'gpt-9-latest' }] } })],
      EMPTY,
      { priced: (provider, name) => provider !== 'openai' || name === 'gpt-9-latest' },
    )
    expect(found.imported.models[0]).toEqual({ id: 'openai/gpt-9-latest' })
  })

  test('include models whose price changes with time', () => {
    expect(
      openaiIds([
        model('gpt-9', {
          prices: [{ prices: PAID }, { constraint: { type: 'start_date', start_date: '2027-01-01' }, prices: PAID }],
        }),
      ]),
    ).toEqual(['openai/gpt-9'])
  })
})

describe('the changes of an import', () => {
  const before = take(['gpt-1', 'gpt-2', 'gpt-3'].map((id) => model(id, { context_window: 1000 }))).imported

  test('are listed line by line and stored; without changes there are none', () => {
    expect(before.changes[0]!.changed[0]).toBe('openai: 3 models, all new')
    const { changed, imported } = take(
      [
        model('gpt-1', { context_window: 2000 }),
        model('gpt-3', { context_window: 1000, name: 'Three' }),
        model('gpt-4'),
      ],
      before,
    )
    expect(changed).toEqual([
      'openai/gpt-1: context 1000 -> 2000',
      'openai/gpt-3: called Three instead of nothing',
      'openai/gpt-4: new',
      'openai/gpt-2: gone',
    ])
    expect(imported.changes.map((one) => one.changed)).toEqual([changed, before.changes[0]!.changed])
    const again = importModels(
      sources(['gpt-1', 'gpt-2', 'gpt-3'].map((id) => model(id, { context_window: 1000 }))),
      { models: [], imported: before },
      { source: 'test 1', today: '2027-01-01', force: false, priced: () => true },
    )
    expect([again.changed, again.imported]).toEqual([[], before])
  })

  test('leave values written by hand, and differences from them are listed', () => {
    const { differing } = take([model('gpt-1', { context_window: 1000 })], EMPTY, {
      models: [
        { id: 'openai/gpt-1', contextLength: 1024 },
        { id: 'openai/gpt-2', contextLength: 5 },
        { id: 'mistral/m' },
      ],
    })
    expect(differing).toEqual(['openai/gpt-1: context 1024 by hand, 1000 in the source'])
  })
})

describe('an import is refused', () => {
  const many = Array.from({ length: 20 }, (_, index) => model(`gpt-${index}`, { context_window: 1000 }))
  const before = take(many).imported

  test('if a provider has no models, or is missing in the source', () => {
    expect(refusal(() => take([]))).toBe('openai: the source has no conversational models of openai')
    expect(refusal(() => take([], EMPTY, { force: true }))).toContain('openai')
    const { google: _, ...others } = sources([model('gpt-9')])
    expect(refusal(() => take([], EMPTY, { from: others }))).toBe(
      'google: the source has no conversational models of google\n' +
        'vertex: the source has no conversational models of google',
    )
  })

  test('if a context length is invalid, even if forced', () => {
    for (const context_window of [0, -1, 1.5, NaN, Infinity, 10, 1e12, '128k' as never]) {
      for (const force of [false, true])
        expect(refusal(() => take([model('gpt-9', { context_window })], EMPTY, { force }))).toBe(
          `openai/gpt-9: ${context_window} tokens are not a valid context`,
        )
    }
  })

  test('if a list shrinks by half, or a context length changes by more than 8 times, unless forced', () => {
    expect(take(many.slice(2), before).changed).toHaveLength(2)
    expect(refusal(() => take(many.slice(10), before))).toStartWith('openai has lost 10 of its 20 models')
    expect(take(many.slice(10), before, { force: true }).changed).toHaveLength(10)
    for (const context_window of [9000, 256]) {
      const moved = [
        model('gpt-0', { context_window: context_window === 256 ? 300 : context_window }),
        ...many.slice(1),
      ]
      const far = take(many.map((one) => ({ ...one, context_window: context_window === 256 ? 5000 : 1000 }))).imported
      expect(
        refusal(() =>
          take(
            moved.map((one) =>
              one.id === 'gpt-0' ? one : { ...one, context_window: context_window === 256 ? 5000 : 1000 },
            ),
            far,
          ),
        ),
      ).toContain('openai/gpt-0: context changed by a factor above 8')
    }
  })
})

describe('the file with the imported models', () => {
  const text = readFileSync(join(import.meta.dir, '../../catalog/models.json'), 'utf8')
  const file = modelsFile as unknown as { imported: ImportedModels }

  test('keeps every character outside its imported section', () => {
    const changed = withImport(text, {
      ...EMPTY,
      models: [{ id: 'openai/a":,b', name: 'A, "b": c', contextLength: 5 }],
    })
    const { imported: ours, ...rest } = JSON.parse(text) as { imported: unknown }
    const { imported, ...others } = JSON.parse(changed) as { imported: { models: unknown } }
    expect(others).toEqual(rest)
    expect([imported.models, ours === undefined]).toEqual([
      [{ id: 'openai/a":,b', name: 'A, "b": c', contextLength: 5 }],
      false,
    ])
    expect(withImport(changed, file.imported)).toBe(text)
    expect(withImport(text, file.imported)).toBe(text)
    expect(() => withImport('{}', file.imported)).toThrow('no section')
  })

  test('has a price and an existing provider for every imported model', () => {
    const prices = new Prices(readConfig('', 'none', {}))
    const providers = new Set(PROVIDER_ROWS.map(({ id }) => id))
    expect(file.imported.models.length).toBeGreaterThan(700)
    for (const { id } of file.imported.models) {
      const [provider = '', ...rest] = id.split('/')
      expect([id, providers.has(provider), prices.cost(provider, rest.join('/')) !== undefined]).toEqual([
        id,
        true,
        true,
      ])
    }
  })
})
