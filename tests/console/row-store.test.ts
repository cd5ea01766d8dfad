import { describe, expect, test } from 'bun:test'
import type { RequestRow } from '../../console/api/answers.ts'
import { RowStore, type RowPage } from '../../console/pages/requests/row-store.ts'

const idOf = (time: number): string => time.toString(16).padStart(8, '0')
const rowOf = (time: number, outcome = 'completed'): RequestRow => ({ id: idOf(time), outcome }) as RequestRow

/** Rows of the times `total` to 1 in pages of 100; the cursor is the time of the last row. */
function pagesOf(total: number) {
  const asked: (string | undefined)[] = []
  const read = async (cursor: string | undefined): Promise<RowPage> => {
    asked.push(cursor)
    const from = cursor === undefined ? total : Number(cursor) - 1
    const data = Array.from({ length: Math.min(100, from) }, (_, index) => rowOf(from - index))
    const last = from - data.length + 1
    return { data, next: last > 1 ? String(last) : null }
  }
  return { asked, read }
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}
const immediately = (run: () => void): void => queueMicrotask(run)

async function opened(read: (cursor: string | undefined) => Promise<RowPage>): Promise<RowStore> {
  const store = new RowStore(read, immediately)
  store.restart()
  await settled()
  return store
}

const idsOf = (store: RowStore, from: number, to: number): (string | undefined)[] =>
  Array.from({ length: to - from }, (_, index) => store.rowAt(from + index)?.id)

describe('the rows of the list of requests', () => {
  test('pages follow each other as the list is scrolled, to its end', async () => {
    const { asked, read } = pagesOf(250)
    const store = await opened(read)
    expect(store.state()).toMatchObject({ count: 100, isEnd: false, isLoading: false })
    store.show(0, 20)
    await settled()
    expect(asked).toEqual([undefined])
    store.show(60, 80)
    await settled()
    store.show(160, 190)
    await settled()
    expect(store.state()).toMatchObject({ count: 250, isEnd: true })
    expect(idsOf(store, 0, 250)).toEqual(Array.from({ length: 250 }, (_, index) => idOf(250 - index)))
    store.show(230, 249)
    await settled()
    expect(asked).toEqual([undefined, '151', '51'])
  })

  test('forty pages are kept, and a released one is read again where it was', async () => {
    const { asked, read } = pagesOf(6000)
    const store = await opened(read)
    for (let last = 99; last < 5999; last += 100) {
      store.show(last - 20, last)
      await settled()
    }
    expect(store.state().count).toBe(6000)
    expect(store.rowAt(0)).toBeUndefined()
    expect(idsOf(store, 0, 6000).filter((id) => id !== undefined)).toHaveLength(4000)
    const before = asked.length
    store.show(0, 20)
    await settled()
    expect(asked.slice(before)).toEqual([undefined])
    expect(store.rowAt(5)?.id).toBe(idOf(5995))
    expect(store.state().count).toBe(6000)
  })

  test('a request appears when it begins and changes in place when it ends', async () => {
    const store = await opened(pagesOf(10).read)
    store.put(rowOf(11, 'open'))
    store.put(rowOf(12, 'open'))
    store.put(rowOf(11, 'failed'))
    store.put(rowOf(4, 'failed'))
    await settled()
    expect(store.state().count).toBe(12)
    expect([0, 1, 2].map((index) => store.rowAt(index)?.outcome)).toEqual(['open', 'failed', 'completed'])
    expect(store.rowAt(8)?.outcome).toBe('failed')
  })

  test('rows that came while the newest page was read are there once', async () => {
    const page = Promise.withResolvers<RowPage>()
    const store = new RowStore(() => page.promise, immediately)
    store.restart()
    store.put(rowOf(3, 'open'))
    store.put(rowOf(4, 'open'))
    page.resolve({ data: [rowOf(3), rowOf(2)], next: null })
    await settled()
    expect(idsOf(store, 0, 3)).toEqual([idOf(4), idOf(3), idOf(2)])
    expect(store.state().count).toBe(3)
  })

  test('new rows wait while the list is scrolled down, and are shown at its top', async () => {
    const store = await opened(pagesOf(100).read)
    store.setAtTop(false)
    for (const time of [101, 102, 103]) store.put(rowOf(time, 'open'))
    await settled()
    expect(store.state()).toMatchObject({ count: 100, waiting: 3 })
    expect(store.rowAt(0)?.id).toBe(idOf(100))
    store.setAtTop(true)
    expect(store.state()).toMatchObject({ count: 103, waiting: 0 })
    expect(store.rowAt(0)?.id).toBe(idOf(103))
  })

  test('a flood of rows does not let the list grow without end: its newest page is read again', async () => {
    const { asked, read } = pagesOf(100)
    const store = await opened(read)
    for (let time = 101; time < 2000; time++) store.put(rowOf(time))
    await settled()
    expect(asked).toEqual([undefined, undefined])
    expect(store.state().count).toBeLessThan(600)
  })

  test('a search goes on over short pages, says how far it is, and can be stopped and resumed', async () => {
    let asked = 0
    const steps: (() => void)[] = []
    const read = async (): Promise<RowPage> => {
      asked++
      return {
        data: asked === 3 ? [rowOf(1)] : [],
        next: asked < 10 ? String(asked) : null,
        scanned_to: `day ${asked}`,
      }
    }
    const store = new RowStore(read, (run) => void steps.push(run))
    store.restart()
    await settled()
    for (const step of steps.splice(0)) step()
    await settled()
    expect(store.state()).toMatchObject({ count: 0, scannedTo: 'day 2', isEnd: false })
    store.stop()
    for (const step of steps.splice(0)) step()
    await settled()
    expect(asked).toBe(2)
    store.resume()
    await settled()
    expect(store.state()).toMatchObject({ count: 1, scannedTo: 'day 3', isStopped: false })
  })

  test('an error stops the reading until it is tried again, and rows stay', async () => {
    const { read } = pagesOf(200)
    let isBroken = false
    const store = await opened((cursor) => (isBroken ? Promise.reject(new Error('gone')) : read(cursor)))
    isBroken = true
    store.show(90, 99)
    await settled()
    expect(store.state()).toMatchObject({ count: 100, isLoading: false })
    expect(store.state().error?.message).toBe('gone')
    isBroken = false
    store.resume()
    await settled()
    expect(store.state()).toMatchObject({ count: 200, error: undefined, isEnd: true })
  })
})
