import type { RequestRow } from '../../api/answers.ts'

/** A page of the list. It may come back short, or empty, with `next`: the search goes on from there. */
export type RowPage = { data: RequestRow[]; next: string | null; scanned_to?: string | null }
type ReadPage = (cursor: string | undefined, signal: AbortSignal) => Promise<RowPage>

export type RowsState = {
  /** Rows that the list has, those of released pages included. */
  count: number
  /** Rows that wait above the list, while it is scrolled down. */
  waiting: number
  /** Not sent one by one. */
  dropped: number
  isLoading: boolean
  /** Nothing is older than the last row. */
  isEnd: boolean
  isStopped: boolean
  error: Error | undefined
  /** The instant back to which the search has come. */
  scannedTo: string | undefined
  /** Changes with every change of a row. */
  version: number
}

type StoredPage = { cursor: string | undefined; size: number; rows: RequestRow[] | undefined }

const PAGES_KEPT = 40
/** Beyond these the list is read again from its top, instead of growing upwards without end. */
const LIVE_MOST = 400
const AHEAD = 40

/**
 * The rows of the list: what has happened since it was opened above pages by cursor. Pages far from what is seen are
 * released, and read again when they are scrolled to, so positions never change.
 */
export class RowStore {
  #live: RequestRow[] = []
  #waiting: RequestRow[] = []
  #pages: StoredPage[] = []
  #next: string | null | undefined
  #isAtTop = true
  #seen = { first: 0, last: 0 }
  #state: RowsState = fresh()
  #loading = new Set<number>()
  #ended = new AbortController()
  #scheduled = false
  #isRefreshing = false
  readonly #listeners = new Set<() => void>()

  constructor(
    readonly read: ReadPage,
    /** Calls back soon, once for many changes. */
    readonly soon: (run: () => void) => void = (run) => setTimeout(run, 100),
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  state = (): RowsState => this.#state

  close(): void {
    this.#ended.abort()
  }

  /** The row at this place of the list; undefined while its page is being read. */
  rowAt(index: number): RequestRow | undefined {
    if (index < this.#live.length) return this.#live[index]
    const { page, offset } = this.#placeOf(index)
    return page === undefined ? undefined : this.#pages[page]?.rows?.[offset]
  }

  indexOf(id: string): number {
    const live = this.#live.findIndex((row) => row.id === id)
    if (live >= 0) return live
    let start = this.#live.length
    for (const { rows, size } of this.#pages) {
      const found = rows?.findIndex((row) => row.id === id) ?? -1
      if (found >= 0) return start + found
      start += size
    }
    return -1
  }

  /** Reads the newest page, and forgets everything else. */
  restart(): void {
    this.#ended.abort()
    this.#ended = new AbortController()
    this.#loading.clear()
    this.#live = []
    this.#waiting = []
    this.#pages = []
    this.#next = undefined
    this.#change({ ...fresh(), version: this.#state.version + 1 })
    void this.#readNext()
  }

  /** Reads the newest page again and keeps what is shown until it is there: after a gap in the live rows. */
  async refresh(): Promise<void> {
    if (this.#isRefreshing) return
    this.#isRefreshing = true
    const { signal } = this.#ended
    try {
      const page = await this.read(undefined, signal)
      if (signal.aborted) return
      this.#live = []
      this.#waiting = []
      this.#pages = [{ cursor: undefined, size: page.data.length, rows: page.data }]
      this.#loading.clear()
      this.#next = page.next
      this.#change({ dropped: 0, error: undefined, isLoading: false, isEnd: page.next === null })
    } catch (error) {
      if (!signal.aborted) this.#change({ error: error as Error })
    } finally {
      this.#isRefreshing = false
    }
  }

  /** The part of the list that is seen, first and last row. Loads what it needs. */
  show(first: number, last: number): void {
    this.#seen = { first, last }
    const { count, isStopped, error } = this.#state
    for (const index of [first, last]) {
      const { page } = this.#placeOf(index)
      if (page !== undefined && this.#pages[page]?.rows === undefined) void this.#readAgain(page)
    }
    if (last >= count - AHEAD && !isStopped && error === undefined) void this.#readNext()
  }

  /** True while the newest row is seen: otherwise new rows wait. */
  setAtTop(isAtTop: boolean): void {
    this.#isAtTop = isAtTop
    if (isAtTop && (this.#waiting.length > 0 || this.#state.dropped > 0)) this.showWaiting()
  }

  get isAtTop(): boolean {
    return this.#isAtTop
  }

  showWaiting(): void {
    if (this.#state.dropped > 0 || this.#waiting.length + this.#live.length > LIVE_MOST) return void this.refresh()
    this.#live = [...this.#waiting, ...this.#live]
    this.#waiting = []
    this.#change({})
  }

  stop(): void {
    this.#change({ isStopped: true })
  }

  resume(): void {
    this.#change({ isStopped: false, error: undefined })
    void this.#readNext()
  }

  /** A request that began, changed or ended. */
  put(row: RequestRow): void {
    if (this.#replace(row)) return
    const list = this.#isAtTop ? this.#live : this.#waiting
    // An id begins with its time.
    const at = list.findIndex((other) => other.id < row.id)
    if (this.#isOlderThanLive(row)) return
    list.splice(at < 0 ? list.length : at, 0, row)
    if (list.length > LIVE_MOST) {
      if (this.#isAtTop) void this.refresh()
      else list.length = LIVE_MOST
    }
    this.#changeSoon()
  }

  drop(count: number): void {
    this.#change({ dropped: this.#state.dropped + count })
  }

  /** A row that belongs into a page was read with it, or is left out until the page is read again. */
  #isOlderThanLive(row: RequestRow): boolean {
    const newest = this.#pages[0]?.rows?.[0]
    return newest !== undefined && row.id < newest.id
  }

  #replace(row: RequestRow): boolean {
    for (const list of [this.#live, this.#waiting, ...this.#pages.map(({ rows }) => rows)]) {
      const at = list?.findIndex((other) => other.id === row.id) ?? -1
      if (list === undefined || at < 0) continue
      list[at] = row
      this.#changeSoon()
      return true
    }
    return false
  }

  #placeOf(index: number): { page?: number; offset: number } {
    let offset = index - this.#live.length
    for (const [page, { size }] of this.#pages.entries()) {
      if (offset < size) return { page, offset }
      offset -= size
    }
    return { offset }
  }

  async #readNext(): Promise<void> {
    if (this.#next === null) return
    const cursor = this.#next
    await this.#load(this.#pages.length, cursor, (page) => {
      if (cursor === undefined) this.#withoutRepeated(page.data)
      this.#pages.push({ cursor, size: page.data.length, rows: page.data })
      this.#next = page.next
    })
    const { isStopped, error, count } = this.#state
    const wantsMore = this.#seen.last >= count - AHEAD
    if (wantsMore && !isStopped && error === undefined) this.soon(() => this.#continue())
  }

  #continue(): void {
    const { isStopped, error } = this.#state
    if (!isStopped && error === undefined && !this.#ended.signal.aborted) void this.#readNext()
  }

  #readAgain(index: number): Promise<void> {
    const stored = this.#pages[index]!
    return this.#load(index, stored.cursor, ({ data }) => {
      // Its size stays, so that rows below it keep their places.
      stored.rows = data.slice(0, stored.size)
    })
  }

  async #load(index: number, cursor: string | undefined, keep: (page: RowPage) => void): Promise<void> {
    if (this.#loading.has(index)) return
    this.#loading.add(index)
    const { signal } = this.#ended
    this.#change({ isLoading: true })
    try {
      const page = await this.read(cursor, signal)
      if (signal.aborted) return
      this.#loading.delete(index)
      keep(page)
      this.#release()
      this.#change({
        error: undefined,
        isEnd: this.#next === null,
        scannedTo: page.scanned_to ?? this.#state.scannedTo,
      })
    } catch (error) {
      if (signal.aborted) return
      this.#loading.delete(index)
      this.#change({ error: error as Error })
    }
  }

  /** Rows that came by the stream and are in the newest page, too. */
  #withoutRepeated(page: readonly RequestRow[]): void {
    const known = new Set(page.map(({ id }) => id))
    this.#live = this.#live.filter(({ id }) => !known.has(id))
    this.#waiting = this.#waiting.filter(({ id }) => !known.has(id))
  }

  /** Releases the pages that are farthest from what is seen. */
  #release(): void {
    const kept = [...this.#pages.keys()].filter((page) => this.#pages[page]?.rows !== undefined)
    if (kept.length <= PAGES_KEPT) return
    const seen = this.#placeOf(this.#seen.last).page ?? this.#pages.length - 1
    kept.sort((a, b) => Math.abs(b - seen) - Math.abs(a - seen))
    for (const page of kept.slice(0, kept.length - PAGES_KEPT)) this.#pages[page]!.rows = undefined
  }

  #changeSoon(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.soon(() => {
      this.#scheduled = false
      this.#change({})
    })
  }

  #change(change: Partial<RowsState>): void {
    const count = this.#pages.reduce((sum, { size }) => sum + size, this.#live.length)
    this.#state = {
      ...this.#state,
      isLoading: this.#loading.size > 0,
      ...change,
      count,
      waiting: this.#waiting.length,
      version: this.#state.version + 1,
    }
    for (const listener of this.#listeners) listener()
  }
}

const fresh = (): RowsState => ({
  count: 0,
  waiting: 0,
  dropped: 0,
  isLoading: true,
  isEnd: false,
  isStopped: false,
  error: undefined,
  scannedTo: undefined,
  version: 0,
})
