import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noUsage } from '../../src/generation/usage.ts'
import { matches } from '../../src/store/request-filter.ts'
import {
  FLAGS,
  USAGE_GROUPS,
  type ChoiceName,
  type RequestFilter,
  type RequestRow,
  type Store,
  type UsageQuestion,
  type UsageRow,
  type UsageSums,
} from '../../src/store/store.ts'
import { withAccounts } from '../store/records.ts'
import {
  ACCOUNTS,
  Chance,
  CLIENTS,
  ENDINGS,
  KEYS,
  lineOfRecord,
  lineOfRefusal,
  MODELS,
  PROVIDERS,
  randomFacts,
  storeFacts,
} from './records.ts'
import { openStoreOf, STORES } from './stores.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const [FROM, TO] = [Date.UTC(2026, 9, 30), Date.UTC(2026, 10, 3)]
const seed = Number(process.env['SEED'] ?? 20261122)
const chance = new Chance(seed)

describe.each(STORES)('reports of %s', (name) => {
  let folder: string
  let store: Store
  let lines: RequestRow[]

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-reports-'))
    store = await openStoreOf(name, folder)
    await withAccounts(store)
    await store.reports.begin()
    const facts = randomFacts(chance, 3_000, FROM, TO)
    await storeFacts(store, facts)
    lines = [...facts.generations.map(lineOfRecord), ...facts.refusals.map(lineOfRefusal)].sort((a, b) =>
      a.id < b.id ? 1 : -1,
    )
  }, 60_000)
  afterAll(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  const VALUES: Record<ChoiceName, readonly string[]> = {
    account: [...ACCOUNTS, 'none'],
    key: [...KEYS.a, ...KEYS.b],
    model: MODELS,
    provider: PROVIDERS,
    api: ['messages', 'responses', 'models'],
    outcome: [...ENDINGS, 'refused', 'open'],
    code: ['upstream_error', 'invalid_request'],
    client: CLIENTS.filter((client) => client !== null),
  }

  const some = (values: readonly string[]): string[] => values.filter(() => chance.is(0.5))

  function randomChoices(names: readonly ChoiceName[]): RequestFilter['choices'] {
    const choices: RequestFilter['choices'] = {}
    for (const name of names)
      if (chance.is(0.2)) choices[name] = chance.is(0.6) ? { only: some(VALUES[name]) } : { not: some(VALUES[name]) }
    return choices
  }

  const randomTime = (): number => FROM + chance.below(TO - FROM)

  function randomFilter(): RequestFilter {
    const rarely = <T>(value: () => T): T | undefined => (chance.is(0.15) ? value() : undefined)
    return {
      ...(chance.is(0.3) ? { accountIds: some(ACCOUNTS), keyIds: some(VALUES.key) } : {}),
      choices: randomChoices(Object.keys(VALUES) as ChoiceName[]),
      flags: Object.fromEntries(FLAGS.filter(() => chance.is(0.1)).map((flag) => [flag, chance.is(0.5)])),
      from: rarely(randomTime),
      to: rarely(randomTime),
      minCost: rarely(() => BigInt(chance.below(9_000_000))),
      seesListPrices: chance.is(0.5),
      minFirstTokenMs: rarely(() => chance.below(4_000)),
      minTotalMs: rarely(() => chance.below(20_000)),
      minTokens: rarely(() => chance.below(9_000)),
      idPrefix: rarely(() => chance.of(lines).id.slice(0, 1 + chance.below(32))),
      errorText: rarely(() => chance.of(['provider said', 'said no 1', 'such model', 'required', 'upstream'])),
    }
  }

  /** All pages of a list, whose lines must not be more than requested. */
  async function list(filter: RequestFilter, limit: number): Promise<RequestRow[]> {
    const rows: RequestRow[] = []
    for (let before: string | undefined; ; ) {
      const page = await store.reports.requests(filter, before, limit)
      expect(page.rows.length).toBeLessThanOrEqual(limit)
      rows.push(...page.rows)
      if (page.next === null) return rows
      before = page.next
    }
  }

  describe('the list of requests', () => {
    test('the list has every line as its record has it, the newest first', async () => {
      expect(await list({ choices: {}, flags: {}, seesListPrices: true }, 199)).toEqual(lines)
    })

    test('the list with any filter has exactly the lines that the filter accepts', async () => {
      let shown = 0
      for (let round = 0; round < 80; round++) {
        const filter = randomFilter()
        const found = (await list(filter, 10 + chance.below(190))).map(({ id }) => id)
        const expected = lines.filter((line) => matches(filter, line)).map(({ id }) => id)
        expect({ seed, round, filter, found }).toEqual({ seed, round, filter, found: expected })
        shown += found.length
      }
      expect(shown).toBeGreaterThan(1_000)
    }, 60_000)

    test('one request is found with its attempts, and not outside the scope of its caller', async () => {
      const line = lines.find(({ tries }) => tries > 1)!
      const found = await store.reports.request(line.id, {})
      expect([found?.row, found?.attempts]).toEqual([line, expect.stringContaining('upstream')])
      expect(await store.reports.request(line.id, { accountIds: ['none'] })).toBeUndefined()
      expect((await store.reports.request(line.id, { accountIds: [], keyIds: [line.keyId!] }))?.row).toEqual(line)
      expect(await store.reports.request('0'.repeat(32), {})).toBeUndefined()
    })
  })

  const noSums = (): UsageSums => ({ requests: 0, failed: 0, refused: 0, bill: 0n, flows: 0n, usage: noUsage() })
  const FAILED = ['failed', 'timed-out', 'shutdown', 'crashed']

  /** The sums of a question, from the lines alone. */
  function summed({ bounds, groups, choices, ...scope }: UsageQuestion): UsageRow[] {
    const rows = new Map<string, UsageRow>()
    const filter: RequestFilter = { ...scope, choices, flags: {}, seesListPrices: true }
    for (const line of lines) {
      const bucket = bounds.findLastIndex((bound) => line.at >= bound)
      if (bucket < 0 || bucket === bounds.length - 1 || !matches(filter, line)) continue
      const isRefused = line.outcome === 'refused'
      const values: Record<(typeof USAGE_GROUPS)[number], string | null> = {
        model: isRefused ? null : line.model,
        key: line.keyId,
        account: line.accountId,
        provider: line.provider,
        outcome: line.outcome,
        code: isRefused ? line.error!.code : null,
      }
      const group = [0, 1].map((at) => (groups[at] === undefined ? null : values[groups[at]]))
      const id = JSON.stringify([bucket, group])
      const row = rows.get(id) ?? { bucket, group, ...noSums() }
      rows.set(id, row)
      if (isRefused) row.refused++
      else {
        row.requests++
        if (FAILED.includes(line.outcome)) row.failed++
        if (line.kind !== 'subscription') row.bill += line.bill
        row.flows += line.flows
        for (const [name, value] of Object.entries(line.usage)) row.usage[name as keyof typeof row.usage] += value
      }
    }
    return [...rows.values()]
  }

  const inOrder = (rows: readonly UsageRow[]): UsageRow[] =>
    rows.toSorted((a, b) => a.bucket - b.bucket || (JSON.stringify(a.group) < JSON.stringify(b.group) ? -1 : 1))

  describe('usage', () => {
    test('sums of whole and of cut hours equal the records, in any groups and with any choices', async () => {
      for (let round = 0; round < 40; round++) {
        const steps = chance.of([DAY_MS, HOUR_MS, 1_800_000, 7 * HOUR_MS])
        const start = chance.is(0.5) ? FROM + chance.below(48) * 1_800_000 : randomTime()
        const bounds = Array.from({ length: 2 + chance.below(60) }, (_, at) => start + at * steps)
        const groups = USAGE_GROUPS.filter(() => chance.is(0.3)).slice(0, 2)
        // The roll-ups of refusals have no model, no provider and no code of a generation.
        const choices = randomChoices(['account', 'key'])
        const question = { ...(chance.is(0.3) ? { accountIds: some(ACCOUNTS) } : {}), bounds, groups, choices }
        const found = inOrder(await store.reports.usage(question))
        expect({ seed, round, question, found }).toEqual({ seed, round, question, found: inOrder(summed(question)) })
      }
    }, 60_000)

    test('refusals that were only counted belong to the hour of their instant', async () => {
      const at = Date.UTC(2026, 5, 1, 10, 15)
      for (let number = 0; number < 5; number++)
        store.reports.addRefusal(
          { ...refusal, id: `${at.toString(16).padStart(12, '0')}${'0'.repeat(19)}${number}`, at },
          number < 2,
        )
      const half = 1_800_000
      const hour = Math.floor(at / HOUR_MS) * HOUR_MS
      const rows = await store.reports.usage({ bounds: [hour, hour + half, hour + 2 * half], groups: [], choices: {} })
      expect(rows.map(({ bucket, refused }) => [bucket, refused])).toEqual([
        [0, 2],
        [1, 3],
      ])
    })
  })

  const refusal = {
    accountId: 'a',
    keyId: 'a1',
    route: 'messages',
    code: 'invalid_request',
    status: 400,
    param: null,
    message: 'no',
    model: null,
    client: null,
  }

  test('speeds are percentiles of the first token within five percent', async () => {
    const [hour] = [Math.floor(FROM / HOUR_MS)]
    const choices = { model: { only: ['acme/large'] }, provider: { only: ['acme'] } }
    const [speed] = await store.reports.speed({ bounds: [hour * HOUR_MS, (hour + 96) * HOUR_MS], choices })
    const measured = lines
      .filter(
        ({ model, provider, outcome, streamed }) =>
          model === 'acme/large' && provider === 'acme' && outcome === 'completed' && streamed,
      )
      .map(({ firstTokenMs }) => firstTokenMs!)
      .sort((a, b) => a - b)
    expect(speed?.counts.reduce((sum, [, requests]) => sum + requests, 0)).toBe(measured.length)
    for (const [bucket, requests] of speed!.counts) {
      const near = measured.filter((ms) => Math.round(8 * Math.log2(Math.max(1, ms))) === bucket)
      expect(near.length).toBe(requests)
      if (bucket > 40) for (const ms of near) expect(Math.abs(2 ** (bucket / 8) / ms - 1)).toBeLessThan(0.05)
    }
  })

  test('old refusals are removed, and the oldest beyond a number', async () => {
    const count = async (): Promise<number> =>
      (await list({ choices: { outcome: { only: ['refused'] } }, flags: {}, seesListPrices: true }, 200)).length
    const before = await count()
    await store.reports.purgeRefusals(0, 100_000)
    expect(await count()).toBe(before)
    await store.reports.purgeRefusals(0, 40)
    expect(await count()).toBe(40)
    await store.reports.purgeRefusals(Date.now(), 40)
    expect(await count()).toBe(0)
  })
})
