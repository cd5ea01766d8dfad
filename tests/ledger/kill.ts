import { expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Durability } from '../../src/config/terms.ts'
import type { Transfer } from '../../src/store/store.ts'
import type { Store } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ON_POSTGRES, storeIn } from '../stores.ts'

const PROTOCOLS = ['chat', 'messages', 'responses', 'gemini'] as const
type Protocol = (typeof PROTOCOLS)[number]

/** USD per million tokens, which is as many thousand nano-USD a token. */
const PRICE = { prompt: 2, completion: 10 }
const START = 1_000_000
const modelOf = (protocol: Protocol): string =>
  `  by-${protocol}: { endpoints: [{ provider: sandbox, model: ${protocol} }], ` +
  `price: { prompt: ${PRICE.prompt}, completion: ${PRICE.completion} } }`
const configOf = (durability: Durability | undefined): string => `
${durability === undefined ? '' : `store: { durability: ${durability} }`}
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: ${START}, delay: 0s }
models:
${PROTOCOLS.map(modelOf).join('\n')}
`
const CLIENTS = 16

/** The end of a complete stream. */
const TERMINAL: Record<Protocol, RegExp> = {
  chat: /^data: \[DONE\]$/m,
  messages: /"type":"message_stop"/,
  responses: /"type":"response\.completed"/,
  gemini: /"finishReason":/,
}

/** One generation as its client saw it. `reported`: the usage reported by its provider, if any. */
type Seen = { id: string; finished: boolean; reported: { in: number; out: number } | undefined }

class Unexpected extends Error {}

const below = (most: number): number => Math.floor(Math.random() * most)
const oneOf = <T>(choices: readonly T[]): T => choices[below(choices.length)]!

/** Generations that finish in each round, and the longest wait for them. */
const FINISHED = 6
const BUSY_MS = 20_000
/** The longest part of a round, before and after a top-up: all clients have requests in flight after a few ms. */
const LOADED_MS = 150
/** The longest wait for the generations of a process that was killed. */
const TAKEOVER_MS = 60_000

/** A server killed again and again under load on the same data folder, and the checks after each restart. */
export class KillHarness {
  readonly #data = mkdtempSync(join(tmpdir(), 'sluice-kill-'))
  readonly #seen = new Map<string, Seen>()
  /** Ids found open just before a kill. */
  readonly #leftOpen = new Set<string>()
  #posted = BigInt(START) * 1_000_000_000n
  #toppedUp = 0
  readonly counts = { finished: 0, left: 0, crashed: 0 }
  readonly #config: string

  /** `durability`: of SQLite. */
  constructor(durability: Durability | undefined) {
    this.#config = configOf(durability)
  }

  /** `reported`: every provider reports usage. Otherwise the first count of each process loads the tokeniser. */
  async round(reported: boolean): Promise<void> {
    const gateway = await startGatewayProcess({ config: this.#config, data: this.#data })
    const store = await storeIn(this.#data)
    try {
      await this.#check(gateway, store)
      if (!reported) await this.#request(gateway, { reports: false, leaves: false })
      const alive = { now: true }
      const before = this.#finished
      const clients = Array.from({ length: CLIENTS }, () => this.#client(gateway, reported, alive))
      await Bun.sleep(50 + below(LOADED_MS))
      // A busy machine takes longer until something can be lost.
      for (const enough = Date.now() + BUSY_MS; this.#finished - before < FINISHED && Date.now() < enough; )
        await Bun.sleep(10)
      await this.#topUp(store)
      await Bun.sleep(below(LOADED_MS))
      for (const { id } of await store.ledger.openGenerations()) this.#leftOpen.add(id)
      alive.now = false
      gateway.kill('SIGKILL')
      await gateway.exited
      await Promise.all(clients)
    } finally {
      gateway.kill('SIGKILL')
      await store.close()
    }
  }

  get #finished(): number {
    return [...this.#seen.values()].filter(({ finished }) => finished).length
  }

  async end(): Promise<void> {
    const gateway = await startGatewayProcess({ config: this.#config, data: this.#data })
    const store = await storeIn(this.#data)
    try {
      await this.#check(gateway, store)
    } finally {
      await store.close()
      await gateway.stop()
    }
    rmSync(this.#data, { recursive: true, force: true })
  }

  /** Tops up like the command line. */
  async #topUp(store: Store): Promise<void> {
    const account = (await store.accounts.list())[0]!.id
    const transfer: Transfer = {
      kind: 'top-up',
      debit: { kind: 'outside', owner: '' },
      credit: { kind: 'credit', owner: account },
      amount: 1_000_000_007n,
    }
    if (
      await store.ledger.post({
        reference: `pay ${++this.#toppedUp}`,
        at: Date.now(),
        note: null,
        transfers: [transfer],
      })
    )
      this.#posted += transfer.amount
  }

  async #client(gateway: GatewayProcess, reported: boolean, alive: { now: boolean }): Promise<void> {
    while (alive.now) {
      await this.#request(gateway, { reports: reported || Math.random() < 0.7, leaves: Math.random() < 0.06 }).catch(
        (error: unknown) => {
          // The connection broke, because the server was killed or the client left.
          if (error instanceof Unexpected) throw error
        },
      )
    }
  }

  async #request(
    { url, key }: GatewayProcess,
    { reports, leaves }: { reports: boolean; leaves: boolean },
  ): Promise<void> {
    const [protocol, model, stream] = [oneOf(PROTOCOLS), `by-${oneOf(PROTOCOLS)}`, Math.random() < 0.6]
    const reported = reports ? { in: 1 + below(900), out: 1 + below(900) } : undefined
    const usage = reported === undefined ? '[[no-usage]]' : `[[usage: in=${reported.in} out=${reported.out}]]`
    const delay = Math.random() < 0.1 ? ` [[delay: ${below(300)}ms]]` : ''
    const text = `[[length: ${1 + below(40)}]] [[pace: ${oneOf([0, 0, 0, 5, 40])}ms]] ${usage}${delay}`
    const [path, body] = {
      chat: ['/v1/chat/completions', { model, stream, max_tokens: 1_000, messages: [{ role: 'user', content: text }] }],
      messages: ['/v1/messages', { model, stream, max_tokens: 1_000, messages: [{ role: 'user', content: text }] }],
      responses: ['/v1/responses', { model, stream, max_output_tokens: 1_000, input: text }],
      gemini: [
        `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
        { contents: [{ role: 'user', parts: [{ text }] }], generationConfig: { maxOutputTokens: 1_000 } },
      ],
    }[protocol] as [string, object]
    const leaving = new AbortController()
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      signal: leaving.signal,
    })
    if (response.status !== 200) throw new Unexpected(`${response.status} ${await response.text()}`)
    const seen: Seen = {
      id: response.headers.get('x-generation-id')!.replace(/^.*_|^.*-/, ''),
      finished: false,
      reported,
    }
    this.#seen.set(seen.id, seen)
    if (!stream) {
      await response.json()
      seen.finished = true
      return
    }
    if (leaves) setTimeout(() => leaving.abort(), below(100))
    let received = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) {
      received += decoder.decode(bytes, { stream: true })
      seen.finished = TERMINAL[protocol].test(received)
    }
  }

  /** Checks a server that has just started. */
  async #check(gateway: GatewayProcess, store: Store): Promise<void> {
    // A process of PostgreSQL is dead once it has not reported for some seconds.
    if (ON_POSTGRES)
      for (const giveUpAt = Date.now() + TAKEOVER_MS; Date.now() < giveUpAt; await Bun.sleep(100))
        if ((await store.ledger.openGenerations()).length === 0) break
    expect(await store.ledger.openGenerations()).toEqual([])
    const records = await all((after: { id: string } | undefined) => store.ledger.generations(after?.id, 1_000))
    const postings = Map.groupBy(
      await all((after: { reference: string; kind: string } | undefined) => store.ledger.transfers(after, 1_000)),
      ({ reference }) => reference,
    )
    const byId = new Map(records.map((record) => [record.id, record]))
    expect(byId.size).toBe(records.length)
    for (const { id, ending, estimated, usage, bill } of records) {
      const paid = (postings.get(id) ?? [])
        .filter(({ credit }) => credit.kind === 'revenue')
        .reduce((sum, { amount }) => sum + amount, 0n)
      expect({ id, paid }).toEqual({ id, paid: bill })
      expect(bill).toBe(BigInt(usage.inputTokens * PRICE.prompt + usage.outputTokens * PRICE.completion) * 1_000n)
      if (ending === 'crashed') expect(estimated || bill === 0n).toBe(true)
    }
    for (const id of this.#leftOpen) expect(byId.has(id) ? id : `${id} is missing`).toBe(id)
    for (const { id, finished, reported } of this.#seen.values()) {
      if (!finished) continue
      expect(byId.get(id) ?? id).toMatchObject({
        id,
        ending: 'completed',
        estimated: reported === undefined,
        ...(reported === undefined ? {} : { usage: { inputTokens: reported.in, outputTokens: reported.out } }),
      })
    }
    const { balances } = await store.ledger.state()
    const credit = balances.find(({ kind }) => kind === 'credit')?.balance
    expect(credit).toBe(this.#posted - records.reduce((sum, { bill }) => sum + bill, 0n))
    await expectBookRight(this.#data)
    await this.#checkOverHttp(gateway)
    Object.assign(this.counts, {
      finished: this.#finished,
      left: this.#leftOpen.size,
      crashed: records.filter(({ ending }) => ending === 'crashed').length,
    })
  }

  /** Looks up a few finished generations as their clients would. */
  async #checkOverHttp({ url, key }: GatewayProcess): Promise<void> {
    for (const { id } of [...this.#seen.values()].filter(({ finished }) => finished).slice(-20)) {
      const response = await fetch(`${url}/v1/management/generation?id=${id}`, {
        headers: { authorization: `Bearer ${key}` },
      })
      expect(response.status).toBe(200)
      expect(await response.json()).toMatchObject({
        ending: 'completed',
        usage: expect.any(Number),
        ratingResponses: { billAmount: expect.any(Number) },
      })
    }
  }
}

async function all<Row>(page: (after: Row | undefined) => Promise<Row[]>): Promise<Row[]> {
  const rows: Row[] = []
  for (;;) {
    const more = await page(rows.at(-1))
    rows.push(...more)
    if (more.length < 1_000) return rows
  }
}
