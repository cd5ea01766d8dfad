import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Store, StoredPrediction, WebhookDelivery } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

let folder: string
let store: Store
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-deliveries-'))
  store = await storeIn(folder)
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const prediction = (id: string, over: Partial<StoredPrediction> = {}): StoredPrediction => ({
  id,
  accountId: 'a',
  model: 'm',
  status: 'processing',
  createdAt: 1,
  startedAt: 2,
  completedAt: null,
  state: '{}',
  input: '{}',
  ...over,
})

const delivery = (id: string, over: Partial<WebhookDelivery> = {}): WebhookDelivery => ({
  id,
  accountId: 'a',
  predictionId: id,
  url: 'https://h.example/',
  body: `{"id":"${id}"}`,
  attempts: 0,
  nextAt: 10,
  ...over,
})

/** Stores an ended prediction with these pending webhook calls. */
async function owe(...deliveries: WebhookDelivery[]): Promise<void> {
  const one = prediction(crypto.randomUUID())
  await store.predictions.add(one)
  expect(await store.predictions.update({ ...one, status: 'succeeded', completedAt: 3 }, deliveries)).toBe(true)
}

const due = async (now: number, limit = 100, except?: string[]): Promise<string[]> =>
  (await store.predictions.dueDeliveries(now, limit, except)).map(({ id }) => id)

test('webhook calls are written with the end of a prediction, and with no second end', async () => {
  const one = prediction('p')
  await store.predictions.add(one)
  expect(await due(Infinity)).toEqual([])
  const end = { ...one, status: 'succeeded', completedAt: 3 } as const
  expect(
    await Promise.all([
      store.predictions.update(end, [delivery('first')]),
      store.predictions.update({ ...end, status: 'failed' }, [delivery('second')]),
      store.predictions.update({ ...end, accountId: 'b' }, [delivery('third')]),
    ]),
  ).toEqual([true, false, false])
  expect(await store.predictions.dueDeliveries(Infinity, 100)).toEqual([delivery('first')])
  expect((await store.predictions.find('a', 'p'))?.status).toBe('succeeded')
})

test('the end of a prediction is not written without its webhook calls', async () => {
  await owe(delivery('taken'))
  const one = prediction('p')
  await store.predictions.add(one)
  await expect(
    store.predictions.update({ ...one, status: 'succeeded', completedAt: 3 }, [delivery('fresh'), delivery('taken')]),
  ).rejects.toThrow()
  expect((await store.predictions.find('a', 'p'))?.status).toBe('processing')
  expect(await due(Infinity)).toEqual(['taken'])
})

test('webhook calls are due at their time, oldest first, except those to skip', async () => {
  await owe(
    delivery('late', { nextAt: 30 }),
    delivery('b', { nextAt: 20 }),
    delivery('a', { nextAt: 20 }),
    delivery('first', { nextAt: 10 }),
    delivery('other', { nextAt: 15, accountId: 'b' }),
  )
  expect(await due(9)).toEqual([])
  expect(await due(20)).toEqual(['first', 'other', 'a', 'b'])
  expect(await due(30, 2)).toEqual(['first', 'other'])
  expect(await due(30, 2, ['first'])).toEqual(['other', 'a'])
  expect(await due(30, 9, ['b', 'late'])).toEqual(['first', 'a'])
})

test('the next webhook call is known before it is due, without those to skip', async () => {
  const { predictions } = store
  expect(await predictions.nextDelivery([])).toBeUndefined()
  await owe(delivery('late', { nextAt: 30 }), delivery('other', { nextAt: 15, accountId: 'b' }))
  expect(await predictions.nextDelivery([])).toBe(15)
  expect(await predictions.nextDelivery(['b'])).toBe(30)
  expect(await predictions.nextDelivery(['other'])).toBe(30)
  expect(await predictions.nextDelivery(['other', 'late'])).toBeUndefined()
})

test('a webhook call is postponed with its attempts, and removed when delivered or given up', async () => {
  await owe(delivery('one'), delivery('two'))
  await store.predictions.updateDelivery('one', 3, 50)
  expect(await due(49)).toEqual(['two'])
  expect(await store.predictions.dueDeliveries(50, 9)).toEqual([
    delivery('two'),
    delivery('one', { attempts: 3, nextAt: 50 }),
  ])
  await store.predictions.updateDelivery('one', 4, undefined)
  expect(await due(Infinity)).toEqual(['two'])
})
