import { describe, expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type { OpenGeneration } from '../../src/ledger/ledger.ts'
import { GenerationCounts } from '../../src/pipeline/generation-counts.ts'
import { Histogram } from '../../src/telemetry/histogram.ts'

const ended = (model: string, ending: string, providers = ['acme']): OpenGeneration =>
  ({
    request: { streamed: false },
    meter: { losses: [], attempts: providers.map((provider) => ({ provider, milliseconds: 1 })) },
    record: {
      model,
      provider: providers.at(-1),
      ending,
      usage: noUsage(),
      bill: 0n,
      latency: 1,
      duration: 1,
      estimated: false,
      disputed: null,
    },
  }) as unknown as OpenGeneration

describe('models with series of their own', () => {
  test('there are at most a hundred; the rest are counted together', () => {
    const counts = new GenerationCounts()
    for (let model = 0; model < 300; model++) counts.add(ended(`acme/${model}`, 'completed'))
    const all = counts.all()
    expect(all.length).toBeLessThanOrEqual(101)
    expect(all.find(({ model }) => model === 'other')?.outcomes.get('completed')).toBeGreaterThanOrEqual(200)
    expect(all.reduce((sum, { outcomes }) => sum + outcomes.get('completed')!, 0)).toBe(300)
  })

  test('a model that was never served has none', () => {
    const counts = new GenerationCounts()
    counts.add(ended('acme/invented', 'failed'))
    expect(counts.all().map(({ model, provider }) => [model, provider])).toEqual([['other', 'acme']])
    counts.add(ended('acme/real', 'completed'))
    counts.add(ended('acme/real', 'failed'))
    expect(counts.all().find(({ model }) => model === 'acme/real')?.outcomes).toEqual(
      new Map([
        ['completed', 1],
        ['failed', 1],
      ]),
    )
  })

  test('an attempt counts for the provider that was called', () => {
    const counts = new GenerationCounts()
    counts.add(ended('acme/real', 'completed', ['first', 'second']))
    expect(counts.all().map(({ provider, attempts }) => [provider, attempts.get('served')])).toEqual([
      ['second', 1],
      ['first', 1],
    ])
  })
})

test('a histogram counts a value at the first bound that is not below it', () => {
  const histogram = new Histogram([1, 2])
  for (const value of [0, 1, 1.5, 2, 3]) histogram.observe(value)
  expect(histogram.counts).toEqual([2, 2, 1])
  expect([histogram.sum, histogram.count]).toEqual([7.5, 5])
})
