import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ChangeLog } from '../../src/accounts/change-log.ts'
import { sqlIn, storeIn, withStoreOption } from '../stores.ts'
import { type Ran, runSluice } from './run.ts'

/** Each change by a command has a line in the change log, in the transaction of the change. */

let data: string
beforeAll(() => {
  data = mkdtempSync(join(tmpdir(), 'sluice-changes-'))
})
afterAll(() => rmSync(data, { recursive: true, force: true }))

const sluice = async (...words: string[]): Promise<Ran> => runSluice(await withStoreOption([...words, '--data', data]))

const COMMANDS: readonly [words: string[], action: string, after: object | null][] = [
  [['accounts', 'create', 'team', '--credit', '5'], 'account.create', { name: 'team', plan: { tier: 'free' } }],
  [['keys', 'create', '--account', 'team', '--name', 'ci'], 'key.create', { name: 'ci', account: { name: 'team' } }],
  [['accounts', 'credit', 'team', '7', '--reference', 'pay-1'], 'account.credit', { amount_usd: '7', bonus: false }],
  [['accounts', 'plan', 'team', 'pro'], 'account.change', { plan: { tier: 'pro' } }],
  [['accounts', 'status', 'team', 'monitored'], 'account.change', { status: 'monitored' }],
  [['accounts', 'discount', 'team', '12'], 'account.change', { discount: 12 }],
  [['quota', 'reset', 'team'], 'quota.reset', null],
]

type Line = { action: string; actor_name: string; after: string | null }
const lines = (): Promise<Line[]> =>
  sqlIn<Line>(data, 'SELECT action, actor_name, after FROM changes ORDER BY position')

test('each command that changes something writes one line, and the digests hold', async () => {
  for (const [words] of COMMANDS) expect([(await sluice(...words)).err, words]).not.toContain('sluice: ')
  const written = await lines()
  expect(written.map(({ action, actor_name: who }) => [action, who])).toEqual(
    COMMANDS.map(([, action]) => [action, 'command line']),
  )
  for (const [index, [, , after]] of COMMANDS.entries())
    expect({ after: JSON.parse(written[index]!.after ?? 'null') as unknown }).toMatchObject({ after })
  const { id } = JSON.parse((await sluice('keys', 'create', '--account', 'team', '--json')).out) as { id: string }
  expect([(await sluice('keys', 'rotate', id)).code, (await sluice('keys', 'revoke', id)).code]).toEqual([0, 0])
  expect((await lines()).slice(written.length).map(({ action }) => action)).toEqual(['key.create', 'key.rotate'])
  const store = await storeIn(data)
  expect(await new ChangeLog(store.changes, Date.now).firstWrong()).toBeUndefined()
  await store.close()
}, 60_000)

test('what is refused, or changes nothing, has no line', async () => {
  const before = (await lines()).length
  const again = await sluice('accounts', 'credit', 'team', '7', '--reference', 'pay-1')
  expect([again.code, again.out]).toEqual([0, expect.stringContaining('has been posted already')])
  const other = await sluice('accounts', 'credit', 'team', '8', '--reference', 'pay-1')
  expect([other.code, other.err]).toEqual([1, 'sluice: The reference pay-1 was posted with 7 USD: use another one.\n'])
  expect((await sluice('accounts', 'credit', 'team', '-100')).err).toContain('team has only 12 USD of credit')
  expect((await sluice('accounts', 'create', 'team')).err).toContain('already exists')
  expect((await lines()).length).toBe(before)
}, 60_000)

test('a command whose line cannot be written to the change log changes nothing', async () => {
  await sqlIn(data, 'ALTER TABLE changes RENAME TO changes_away')
  const failed = await Promise.all([
    sluice('accounts', 'create', 'late'),
    sluice('accounts', 'status', 'team', 'banned'),
    sluice('accounts', 'credit', 'team', '1', '--reference', 'pay-2'),
    sluice('keys', 'create', '--account', 'team', '--name', 'late'),
  ])
  await sqlIn(data, 'ALTER TABLE changes_away RENAME TO changes')
  expect(failed.map(({ code }) => code)).toEqual([1, 1, 1, 1])
  const shown = (await sluice('accounts', 'show', 'team')).out
  expect([shown.includes('monitored'), shown.includes('12 USD'), shown.includes('late')]).toEqual([true, true, false])
  expect((await sluice('accounts', 'list')).out).not.toContain('late')
}, 60_000)
