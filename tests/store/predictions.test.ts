import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Store, StoredPrediction, WebhookDelivery } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

let folder: string
let store: Store
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  store = await storeIn(folder)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const idOf = (number: number): string => `019aa00000007000${number.toString(16).padStart(16, '0')}`
const prediction = (number: number, over: Partial<StoredPrediction> = {}): StoredPrediction => ({
  id: idOf(number),
  accountId: 'a',
  model: 'm',
  status: 'starting',
  createdAt: number,
  startedAt: null,
  completedAt: null,
  state: '{}',
  input: '{}',
  ...over,
})
const ended = (number: number, completedAt: number, over: Partial<StoredPrediction> = {}): StoredPrediction =>
  prediction(number, { status: 'succeeded', completedAt, ...over })
const delivery = (id: string, nextAt = 5): WebhookDelivery => ({
  id,
  accountId: 'a',
  predictionId: idOf(1),
  url: 'https://example.com',
  body: '{}',
  attempts: 0,
  nextAt,
})

test('a prediction is read as it was last written, by its account only', async () => {
  await store.predictions.add(prediction(1))
  expect(await store.predictions.find('a', idOf(1))).toEqual(prediction(1))
  expect(await store.predictions.find('b', idOf(1))).toBeUndefined()
  const processing = prediction(1, { status: 'processing', startedAt: 7, state: '{"logs":"1"}' })
  expect(await store.predictions.update({ ...processing, accountId: 'b' })).toBe(false)
  expect(await store.predictions.update(processing)).toBe(true)
  expect(await store.predictions.find('a', idOf(1))).toEqual(processing)
})

test('a prediction ends once, and only that end adds webhook calls', async () => {
  await store.predictions.add(prediction(1))
  const ends = [ended(1, 10), ended(1, 11, { status: 'canceled' }), ended(1, 12, { status: 'failed' })]
  expect(await Promise.all(ends.map((end, at) => store.predictions.update(end, [delivery(`msg_${at}`)])))).toEqual([
    true,
    false,
    false,
  ])
  expect(await store.predictions.update(prediction(1, { status: 'processing' }))).toBe(false)
  expect(await store.predictions.find('a', idOf(1))).toEqual(ends[0])
  expect((await store.predictions.dueDeliveries(10, 10)).map(({ id }) => id)).toEqual(['msg_0'])
})

test('an end is not written if its webhook call cannot be written', async () => {
  await store.predictions.add(prediction(1))
  const twice = [delivery('msg_1'), delivery('msg_1')]
  await expect(store.predictions.update(ended(1, 10), twice)).rejects.toThrow(/unique/i)
  expect((await store.predictions.find('a', idOf(1)))?.status).toBe('starting')
  expect(await store.predictions.dueDeliveries(10, 10)).toEqual([])
})

test('the predictions of an account are listed newest first, page by page', async () => {
  for (let number = 1; number <= 7; number++)
    await store.predictions.add(prediction(number, { accountId: number === 4 ? 'b' : 'a' }))
  const numbers = async (limit: number, before?: number): Promise<number[]> =>
    (await store.predictions.list('a', limit, before === undefined ? undefined : idOf(before))).map(
      ({ createdAt }) => createdAt,
    )
  expect(await numbers(3)).toEqual([7, 6, 5])
  expect(await numbers(3, 5)).toEqual([3, 2, 1])
  expect(await numbers(3, 1)).toEqual([])
})

test('large predictions come in small pages, and none is omitted', async () => {
  const input = JSON.stringify({ image: 'x'.repeat(3 * 1024 * 1024) })
  for (let number = 1; number <= 5; number++)
    await store.predictions.add(prediction(number, { input: number === 3 ? input.repeat(4) : input }))
  const pages: number[][] = []
  for (let before: string | undefined; pages.at(-1)?.length !== 0; before = idOf(pages.at(-1)!.at(-1) ?? 0))
    pages.push((await store.predictions.list('a', 100, before)).map(({ createdAt }) => createdAt))
  expect(pages).toEqual([[5, 4], [3], [2, 1], []])
  // The input is read only when the prediction runs.
  expect((await store.predictions.unfinished()).map(({ createdAt }) => createdAt)).toEqual([1, 2, 3, 4, 5])
  for (let number = 1; number <= 5; number++)
    await store.predictions.update(prediction(number, { state: 'x'.repeat(3 * 1024 * 1024) }))
  const first = await store.predictions.unfinished()
  expect(first.map(({ createdAt }) => createdAt)).toEqual([1, 2])
  expect((await store.predictions.unfinished(first.at(-1)!.id)).map(({ createdAt }) => createdAt)).toEqual([3, 4])
})

test('unfinished predictions are found, and those that ended long ago are purged', async () => {
  for (let number = 1; number <= 450; number++) await store.predictions.add(prediction(number))
  for (let number = 1; number <= 430; number++) await store.predictions.update(ended(number, number))
  expect((await store.predictions.unfinished()).length).toBe(20)
  expect(await store.predictions.purge(421)).toBe(420)
  expect(await store.predictions.find('a', idOf(420))).toBeUndefined()
  expect((await store.predictions.find('a', idOf(421)))?.status).toBe('succeeded')
  expect((await store.predictions.unfinished()).length).toBe(20)
})
