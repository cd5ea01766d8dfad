import { ask } from '../../api/ask.ts'
import { FrameReader, type Frame } from '../../parts/frames.ts'
import type { ConversationName } from '../../parts/protocols.ts'
import type { RequestDetail } from '../request/detail.ts'
import { addTo, noAnswer, type Answer } from './answer.ts'
import { forgetPlaygroundKey, playgroundKey } from './key.ts'

export type RunState = {
  status: 'running' | 'done' | 'stopped' | 'failed'
  answer: Answer
  /** The wire between this page and Sluice. */
  sent: { path: string; body: string }
  http: { status: number; headers: [string, string][] } | undefined
  frames: readonly Frame[]
  /** The answer where it came in one piece. */
  received: string
  firstMs: number | undefined
  totalMs: number | undefined
  generationId: string | undefined
  /** The id by which a request is found that never became a generation. */
  requestId: string | undefined
  /** The record, once it is written. */
  record: RequestDetail | undefined
}

type RunRequest = { protocol: ConversationName; path: string; body: string; account: string }

const DRAW_MS = 60
const MOST_FRAMES = 5000

/** One request, as a client would send it. `onChange` gets its state as it comes, not for every frame. */
export class Run {
  state: RunState
  readonly #ended = new AbortController()
  readonly #startedAt = performance.now()
  readonly #frames: Frame[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    readonly request: RunRequest,
    readonly onChange: (state: RunState) => void,
  ) {
    this.state = {
      status: 'running',
      answer: noAnswer(),
      sent: { path: request.path, body: request.body },
      http: undefined,
      frames: [],
      received: '',
      firstMs: undefined,
      totalMs: undefined,
      generationId: undefined,
      requestId: undefined,
      record: undefined,
    }
    void this.#send()
  }

  stop(): void {
    this.#ended.abort()
  }

  async #send(): Promise<void> {
    try {
      const response = await this.#fetch()
      this.state.http = { status: response.status, headers: [...response.headers] }
      this.state.generationId = response.headers.get('x-generation-id') ?? undefined
      this.state.requestId = response.headers.get('x-request-id') ?? undefined
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
      await (isStream ? this.#readStream(response) : this.#readWhole(response))
      this.#end(response.ok && this.state.answer.error === undefined ? 'done' : 'failed')
    } catch (error) {
      const isStopped = this.#ended.signal.aborted
      if (!isStopped) this.state.answer.error = (error as Error).message
      this.#end(isStopped ? 'stopped' : 'failed')
    }
    await this.#readRecord()
  }

  async #fetch(): Promise<Response> {
    const { path, body, account } = this.request
    const key = await playgroundKey(account)
    const response = await fetch(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      credentials: 'omit',
      cache: 'no-store',
      body,
      signal: this.#ended.signal,
    })
    if (response.status === 401) forgetPlaygroundKey(account)
    return response
  }

  async #readStream(response: Response): Promise<void> {
    const reader = new FrameReader()
    const decoder = new TextDecoder()
    const body = response.body!.getReader()
    for (;;) {
      const { value, done } = await body.read()
      const frames = done ? reader.end(this.#ms()) : reader.push(decoder.decode(value, { stream: true }), this.#ms())
      for (const frame of frames) this.#take(frame)
      if (done) return
    }
  }

  #take(frame: Frame): void {
    if (this.#frames.length < MOST_FRAMES) this.#frames.push(frame)
    const { answer } = this.state
    const before = answer.text.length + answer.reasoning.length + answer.calls.length
    const value = parsed(frame.data)
    if (value !== undefined) addTo(answer, this.request.protocol, value)
    if (answer.text.length + answer.reasoning.length + answer.calls.length > before) this.state.firstMs ??= frame.atMs
    this.#drawSoon()
  }

  async #readWhole(response: Response): Promise<void> {
    const text = await response.text()
    this.state.received = text
    const value = parsed(text)
    if (value === undefined) this.state.answer.error = `The answer is not JSON: ${text.slice(0, 200)}`
    else addTo(this.state.answer, this.request.protocol, value)
    if (!response.ok) this.state.answer.error ??= `The server answered ${response.status}.`
  }

  #end(status: RunState['status']): void {
    this.state.status = status
    this.state.totalMs = this.#ms()
    this.#draw()
  }

  /** The record says what it cost and which attempts there were. It is written a moment after the last byte. */
  async #readRecord(): Promise<void> {
    const { generationId } = this.state
    if (generationId === undefined) return
    for (let tries = 0; tries < 5; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 150 + 350 * tries))
      try {
        const record = await ask<RequestDetail>('GET', `/requests/${encodeURIComponent(generationId)}`)
        if (record.outcome === 'open') continue
        this.state.record = record
        return this.#draw()
      } catch {}
    }
  }

  #ms(): number {
    return Math.round(performance.now() - this.#startedAt)
  }

  #drawSoon(): void {
    this.#timer ??= setTimeout(() => this.#draw(), DRAW_MS)
  }

  #draw(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.onChange({ ...this.state, answer: { ...this.state.answer }, frames: [...this.#frames] })
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
