import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { topUp } from '../../src/ledger/book.ts'
import { listening } from './listening.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { ofSqlite, storeIn, withStoreOption, withStoreText } from '../stores.ts'

const scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-accounts-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

let folders = 0
const newFolder = (): string => join(scratch, `data-${folders++}`)

const start = (args: string[]): Bun.Subprocess<'ignore', 'pipe', 'pipe'> =>
  Bun.spawn([program(), ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', ...LATE_COMPILERS, HOME: scratch, OLLAMA_HOST: 'http://127.0.0.1:9' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })

async function run(folder: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const child = start(await withStoreOption([...args, '--data', folder]))
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, err }
}

const json = async <T = Record<string, unknown>>(folder: string, ...args: string[]): Promise<T> => {
  const { out, err } = await run(folder, ...args, '--json')
  expect(err).toBe('')
  return JSON.parse(out) as T
}

test('an account is created with its initial money and plan, listed and shown', async () => {
  const folder = newFolder()
  const made = await json(
    folder,
    'accounts',
    'create',
    'team',
    '--credit',
    '50',
    '--bonus',
    '0.000000001',
    '--plan',
    'pro',
    '--discount',
    '12.5',
  )
  expect(made).toMatchObject({
    name: 'team',
    status: 'healthy',
    discountPercent: 12.5,
    plan: { tier: 'pro', renews: true, nextTier: null },
    balance: { totalUsd: 50.000000001, creditUsd: 50, bonusUsd: 1e-9 },
    keys: [],
  })
  const key = await json(
    folder,
    'keys',
    'create',
    '--account',
    'team',
    '--models',
    'openai/*, fast',
    '--limit',
    '20',
    '--limit-period',
    'month',
    '--no-idempotency',
    '--requests-per-minute',
    '9',
  )
  const shown = await json(folder, 'accounts', 'show', 'team')
  expect(shown).toMatchObject({
    ...made,
    keys: [
      {
        id: key.id,
        models: ['openai/*', 'fast'],
        limitUsd: 20,
        limitPeriod: 'month',
        spentUsd: 0,
        requestsPerMinute: 9,
        idempotency: false,
        revokedAt: null,
      },
    ],
  })
  expect(await json(folder, 'accounts', 'show', String(made.id))).toEqual(shown)
  const { keys: _, ...listed } = shown
  expect(await json<unknown>(folder, 'accounts', 'list')).toEqual([listed])
  const { out } = await run(folder, 'accounts', 'show', 'team')
  expect(out).toMatch(/Balance +50\.000000001 USD \(credit 50, bonus 0\.000000001\)\n.*12\.5 %\n\n/)
  expect(out).toMatch(/pay-as-you-go +active +openai\/\*,fast +20 USD a month +0\n$/)
}, 30_000)

test('credit is added once per reference, and can be removed', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team')
  for (const posted of [true, false]) {
    expect(
      await json(folder, 'accounts', 'credit', 'team', '12.5', '--reference', 'inv-1', '--note', 'Invoice 1'),
    ).toEqual({
      account: 'team',
      reference: 'inv-1',
      posted,
      balance: { totalUsd: 12.5, creditUsd: 12.5, bonusUsd: 0 },
    })
  }
  expect((await run(folder, 'accounts', 'credit', 'team', '12.5', '--reference', 'inv-1')).out).toStartWith(
    'the reference inv-1 has been posted already; nothing was changed\n',
  )
  expect((await json(folder, 'accounts', 'credit', 'team', '-2.500000001')).balance).toEqual({
    totalUsd: 9.999999999,
    creditUsd: 9.999999999,
    bonusUsd: 0,
  })
  expect((await json(folder, 'accounts', 'credit', 'team', '3', '--bonus')).balance).toMatchObject({ bonusUsd: 3 })
  expect(await run(folder, 'accounts', 'credit', 'team', '-3.1', '--bonus')).toMatchObject({
    code: 1,
    err: 'sluice: team has only 3 USD of bonus; nothing was changed\n',
  })
  expect(await run(folder, 'accounts', 'credit', 'team', '-10')).toMatchObject({
    code: 1,
    err: 'sluice: team has only 9.999999999 USD of credit; nothing was changed\n',
  })
  expect((await json(folder, 'accounts', 'show', 'team')).balance).toEqual({
    totalUsd: 12.999999999,
    creditUsd: 9.999999999,
    bonusUsd: 3,
  })
}, 30_000)

test('concurrent commands cannot remove more credit than there is', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team', '--credit', '10')
  const answers = await Promise.all([1, 2, 3].map(() => run(folder, 'accounts', 'credit', 'team', '-10')))
  expect(answers.map(({ code }) => code).sort()).toEqual([0, 1, 1])
  expect(answers.filter(({ code }) => code === 1).map(({ err }) => err)).toEqual(
    Array(2).fill('sluice: team has only 0 USD of credit; nothing was changed\n'),
  )
  expect((await json(folder, 'accounts', 'show', 'team')).balance).toMatchObject({ creditUsd: 0 })
}, 30_000)

test('a reference cannot be the id of a generation', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team')
  const id = '019aa0000000700000000000000000ab'
  expect(await run(folder, 'accounts', 'credit', 'team', '1', '--reference', id)).toMatchObject({
    code: 2,
    err: expect.stringContaining('not 32 hex digits') as string,
  })
  expect(() => topUp({ reference: id, at: 1, accountId: 'a', amount: 1n, bonus: false })).toThrow(
    'looks like the id of a generation; choose another one',
  )
  expect((await run(folder, 'accounts', 'credit', 'team', '1', '--reference', `${id}0`)).code).toBe(0)
}, 30_000)

test('a plan changes at once or with the next period, and may end with the period', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team')
  expect((await json(folder, 'accounts', 'plan', 'team', 'max')).plan).toMatchObject({
    tier: 'max',
    nextTier: null,
    renews: true,
  })
  expect((await json(folder, 'accounts', 'plan', 'team', 'pro')).plan).toMatchObject({
    tier: 'max',
    nextTier: 'pro',
    renews: true,
  })
  expect((await json(folder, 'accounts', 'plan', 'team', 'pro', '--now', '--no-renew')).plan).toMatchObject({
    tier: 'pro',
    nextTier: null,
    renews: false,
  })
  expect((await json(folder, 'accounts', 'show', 'team')).plan).toMatchObject({ tier: 'pro', renews: false })
}, 30_000)

test('the status and the discount of an account can be set', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team')
  expect((await run(folder, 'accounts', 'status', 'team', 'banned')).out).toBe('team is banned (was healthy)\n')
  expect((await run(folder, 'accounts', 'discount', 'team', '7.25')).out).toBe(
    'team has a discount of 7.25 % (was 0 %)\n',
  )
  expect(await json(folder, 'accounts', 'show', 'team')).toMatchObject({ status: 'banned', discountPercent: 7.25 })
}, 30_000)

ofSqlite('folder')(
  'an unknown folder is reported, and not created by reading',
  async () => {
    const folder = newFolder()
    for (const args of [
      ['list'],
      ['show', 'team'],
      ['credit', 'team', '1'],
      ['plan', 'team', 'pro'],
      ['status', 'team', 'banned'],
      ['discount', 'team', '1'],
    ]) {
      expect(await run(folder, 'accounts', ...args)).toEqual({
        code: 1,
        out: '',
        err: `sluice: the data folder ${folder} does not exist\n`,
      })
    }
    expect(existsSync(folder)).toBe(false)
  },
  40_000,
)

test('an unknown account is reported with a remedy', async () => {
  const folder = newFolder()
  await run(folder, 'accounts', 'create', 'team')
  const unknown =
    'sluice: there is no account "tema" (did you mean team?); ' +
    'sluice accounts list shows all accounts, sluice accounts create creates one\n'
  for (const args of [
    ['accounts', 'show', 'tema'],
    ['accounts', 'credit', 'tema', '1'],
    ['keys', 'create', '--account', 'tema'],
  ]) {
    expect(await run(folder, ...args)).toEqual({ code: 1, out: '', err: unknown })
  }
  expect(await run(folder, 'accounts', 'create', 'team')).toMatchObject({
    code: 1,
    err: 'sluice: the account team already exists; sluice accounts show team shows it\n',
  })
}, 40_000)

test('the first start creates one account with the configured credit, and others without', async () => {
  const folder = newFolder()
  const config = join(scratch, 'first.yaml')
  const text = 'billing: { startingCredit: 12.25 }\nkeys: [{ key: sk-ai-v1-of-a-team-in-the-file, account: team }]\n'
  writeFileSync(config, await withStoreText(text, folder))
  for (let starts = 0; starts < 2; starts++) {
    const { child } = await listening(start(['serve', '--port', '0', '--config', config, '--data', folder]))
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  }
  const listed = await json<{ name: string; plan: { tier: string }; balance: { creditUsd: number } }[]>(
    folder,
    'accounts',
    'list',
  )
  expect(listed.map(({ name, plan, balance }) => [name, plan.tier, balance.creditUsd]).sort()).toEqual([
    ['default', 'free', 12.25],
    ['team', 'free', 0],
  ])
}, 30_000)

test('a management key is made with a role on the installation, and wrong options are refused', async () => {
  const folder = newFolder()
  const { id } = await json<{ id: string }>(folder, 'keys', 'create', '--kind', 'management', '--role', 'viewer')
  const store = await storeIn(folder)
  expect(await store.accounts.keyWithId(id)).toMatchObject({
    kind: 'management',
    role: 'viewer',
    scope: 'installation',
  })
  await store.close()
  for (const [args, message] of [
    [['--role', 'viewer'], '--role requires --kind management'],
    [['--requests-per-minute', '1000001'], '--requests-per-minute must be a whole number from 1 to 1000000'],
    [['--kind', 'management', '--role', 'member'], '--role must be one of owner, admin, viewer'],
    [['--kind', 'management', '--role', 'admn'], 'did you mean admin?'],
  ] as const) {
    const { code, err } = await run(folder, 'keys', 'create', ...args)
    expect([code, err]).toEqual([2, expect.stringContaining(message)])
  }
})
