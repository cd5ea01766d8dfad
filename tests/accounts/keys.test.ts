import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Accounts } from '../../src/accounts/accounts.ts'
import { Keys, type ConfiguredKey, type Identity } from '../../src/accounts/keys.ts'
import { GatewayError } from '../../src/error.ts'
import { topUp } from '../../src/ledger/book.ts'
import { SqliteStore } from '../../src/store/sqlite/store.ts'

let folder: string
let stores: SqliteStore[]
let accounts: Accounts
let now: number

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'))
  stores = []
  now = 1_000_000
})
afterEach(async () => {
  for (const store of stores) await store.close()
  rmSync(folder, { recursive: true, force: true })
})

async function open(configured: ConfiguredKey[] = []): Promise<Keys> {
  const store = new SqliteStore({ folder, exclusive: false })
  stores.push(store)
  accounts = new Accounts({
    store,
    first: { credits: (accountId) => [topUp({ reference: 'first', at: now, accountId, amount: 5n, bonus: false })] },
    now: () => now,
  })
  return Keys.open({ store, accounts, folder, configured, now: () => now })
}

const bearer = (text: string): Headers => new Headers({ authorization: `Bearer ${text}` })

function outcome(keys: Keys, headers: Headers): Identity | string {
  try {
    return keys.identify(headers)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return error.code
  }
}

const CHOSEN = 'sk-ai-v1-chosen_by_the_operator'

describe('the first start', () => {
  test('makes one account and one key of each kind, and does so once', async () => {
    const keys = await open()
    const first = await keys.start()
    expect(first.map(({ kind }) => kind)).toEqual(['pay-as-you-go', 'subscription', 'management'])
    const identities = first.map(({ text }) => keys.identify(bearer(text)))
    expect(identities.map(({ kind }) => kind)).toEqual(['pay-as-you-go', 'subscription', 'management'])
    expect(new Set(identities.map(({ accountId }) => accountId)).size).toBe(1)
    expect(identities[0]?.accountStatus).toBe('healthy')
    expect(await keys.start()).toEqual([])
    expect(await (await open()).start()).toEqual([])
  })

  test('makes them beside the keys of the config file', async () => {
    const keys = await open([{ key: 'sk-ai-v1-written-in-the-file' }])
    expect((await keys.start()).length).toBe(3)
    expect(await keys.start()).toEqual([])
  })

  test('takes SLUICE_KEY as its pay-as-you-go key; later starts add an unknown one and know the others', async () => {
    const keys = await open()
    const first = await keys.start(CHOSEN)
    expect(first[0]).toEqual({ kind: 'pay-as-you-go', text: CHOSEN })
    expect(first.length).toBe(3)
    expect(await keys.start(CHOSEN)).toEqual([])
    expect(await keys.start('')).toEqual([])
    const another = `${CHOSEN}_2`
    expect(await keys.start(another)).toEqual([{ kind: 'pay-as-you-go', text: another }])
    expect(await keys.start(another)).toEqual([])
    expect(keys.identify(bearer(another)).accountId).toBe(keys.identify(bearer(CHOSEN)).accountId)
  })

  test('refuses a SLUICE_KEY that is none, and one that was revoked', async () => {
    const keys = await open()
    for (const bad of [
      'x',
      'sk-ai-v1-short',
      'sk-ss-v1-0123456789abcdef',
      'sk-ai-v1-0123456789 abcdef',
      `${CHOSEN}\n`,
    ]) {
      expect(await keys.start(bad).catch((error: Error) => error.message)).toMatch(
        /^SLUICE_KEY must be sk-ai-v1- and 16 to 200/,
      )
    }
    await keys.start(CHOSEN)
    await keys.revoke(CHOSEN)
    expect(await keys.start(CHOSEN).catch((error: Error) => error.message)).toMatch(/revoked/)
  })
})

describe('a key text', () => {
  test('is prefix, 43 digits and the checksum of both', async () => {
    const keys = await open()
    for (const [kind, prefix] of [
      ['pay-as-you-go', 'sk-ai-v1-'],
      ['subscription', 'sk-ss-v1-'],
      ['management', 'sk-mg-v1-'],
    ] as const) {
      const { text } = await keys.create({ kind })
      expect(text).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{49}$`))
      const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
      const checksum = [...text.slice(-6)].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0)
      expect(checksum).toBe(crc32(text.slice(0, -6)))
    }
  })

  test('is nowhere in the data folder, whole or in part, and its hash needs the pepper', async () => {
    const keys = await open()
    const { text } = await keys.create({ kind: 'subscription', name: 'mine' })
    for (const file of readdirSync(folder)) {
      const bytes = readFileSync(join(folder, file))
      expect(bytes.includes(text.slice(0, 16))).toBe(false)
      expect(bytes.includes(new Bun.CryptoHasher('sha256').update(text).digest())).toBe(false)
    }
    expect(statSync(join(folder, 'pepper')).mode & 0o777).toBe(0o600)
    expect(statSync(join(folder, 'pepper')).size).toBe(32)
    expect((await keys.list())[0]).toMatchObject({
      kind: 'subscription',
      name: 'mine',
      account: 'default',
      text: `${text.slice(0, 12)}...${text.slice(-4)}`,
    })
  })
})

describe('the pepper', () => {
  test('when lost, cut or exchanged stops the start instead of refusing every key', async () => {
    await open()
    for (const [content, message] of [
      [Buffer.alloc(32, 1), /not the one/],
      [Buffer.alloc(31), /must hold 32 bytes/],
      [undefined, /is missing/],
    ] as const) {
      if (content === undefined) rmSync(join(folder, 'pepper'))
      else writeFileSync(join(folder, 'pepper'), content)
      expect(
        await open().then(
          () => 'opened',
          (error: Error) => error.message,
        ),
      ).toMatch(message)
    }
  })
})

describe('identify', () => {
  test('reads three headers, the scheme in any case', async () => {
    const keys = await open()
    const { text, id } = await keys.create({ kind: 'pay-as-you-go', requestsPerMinute: 9 })
    const accepted: Record<string, string>[] = [
      { authorization: `Bearer ${text}` },
      { authorization: `bearer ${text}` },
      { authorization: `BEARER   ${text}` },
      { 'x-api-key': text },
      { 'x-goog-api-key': text },
      { 'x-api-key': text, authorization: `Bearer ${text}` },
    ]
    for (const headers of [...accepted, ...accepted])
      expect(keys.identify(new Headers(headers))).toMatchObject({ keyId: id, requestsPerMinute: 9 })
  })

  test('gives one answer to everything else', async () => {
    const keys = await open()
    const { text } = await keys.create({ kind: 'pay-as-you-go' })
    const hash = new Bun.CryptoHasher('sha256').update(text).digest('hex')
    const refused: Record<string, string>[] = [
      {},
      { authorization: text },
      { authorization: `Basic ${text}` },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: `Bearer ${text}x` },
      { authorization: `Bearer ${text.slice(0, -1)}` },
      { authorization: `Bearer ${text}, Bearer ${text}` },
      { authorization: `Bearer ${hash}` },
      { 'x-api-key': `Bearer ${text}` },
      { authorization: `Bearer ${'a'.repeat(8000)}` },
      { authorization: `Bearer ' OR 1=1 --` },
      { cookie: `key=${text}` },
      { 'x-api-key': text.toUpperCase() },
    ]
    // A working key first, so that what is remembered of it is tried as well.
    keys.identify(bearer(text))
    const messages = new Set(
      refused.map((headers) => {
        try {
          return JSON.stringify(keys.identify(new Headers(headers)))
        } catch (error) {
          expect((error as GatewayError).status).toBe(401)
          return (error as GatewayError).message
        }
      }),
    )
    expect([...messages]).toEqual([
      'A valid API key is required, in the header "Authorization: Bearer KEY", "x-api-key" or "x-goog-api-key".',
    ])
  })

  test('takes the first header that holds a working key', async () => {
    const keys = await open()
    const [one, two] = [await keys.create({ kind: 'pay-as-you-go' }), await keys.create({ kind: 'subscription' })]
    expect(keys.identify(new Headers({ authorization: `Bearer ${one.text}`, 'x-api-key': two.text })).keyId).toBe(
      one.id,
    )
    expect(keys.identify(new Headers({ authorization: 'Bearer left-over', 'x-api-key': two.text })).keyId).toBe(two.id)
  })

  test('stops at the instant a key expires, remembered or not', async () => {
    const keys = await open()
    const { text } = await keys.create({ kind: 'pay-as-you-go', expiresAt: now + 1000 })
    expect(outcome(keys, bearer(text))).toBeObject()
    now += 999
    expect(outcome(keys, bearer(text))).toBeObject()
    now += 1
    expect(outcome(keys, bearer(text))).toBe('invalid_api_key')
    expect(outcome(keys, new Headers({ 'x-api-key': text }))).toBe('invalid_api_key')
  })
})

describe('revoking', () => {
  test('by id, by whole text or by what the list shows; at once here', async () => {
    const keys = await open()
    for (const which of [
      ({ id }: { id: string }) => id,
      ({ text }: { text: string }) => text,
      ({ text }: { text: string }) => text.slice(0, 12),
    ]) {
      const key = await keys.create({ kind: 'management' })
      expect(outcome(keys, bearer(key.text))).toBeObject()
      expect(await keys.revoke(which(key))).toEqual({ id: key.id })
      expect(outcome(keys, bearer(key.text))).toBe('invalid_api_key')
      expect(await keys.revoke(key.id)).toEqual({ id: key.id })
    }
  })

  test('refuses an unknown key and a beginning that several share', async () => {
    const keys = await open()
    await keys.start()
    await keys.create({ kind: 'pay-as-you-go' })
    for (const unknown of ['key_none', 'sk-ai-v1-none_of_them', '', '%'])
      expect(await keys.revoke(unknown).catch((error: Error) => error.message)).toMatch(/no stored key/)
    expect(await keys.revoke('sk-ai-v1-').catch((error: Error) => error.message)).toMatch(/several keys begin so/)
    expect((await keys.list()).every(({ revokedAt }) => revokedAt === null)).toBe(true)
  })

  test('by another process is seen, and so is a key made there', async () => {
    const server = await open()
    const { text } = await server.create({ kind: 'pay-as-you-go' })
    const other = await open()
    const made = await other.create({ kind: 'subscription' })
    await other.revoke(text)
    const deadline = Date.now() + 10_000
    while (typeof outcome(server, bearer(text)) === 'object' && Date.now() < deadline) await Bun.sleep(20)
    expect(outcome(server, bearer(text))).toBe('invalid_api_key')
    expect(outcome(server, bearer(made.text))).toMatchObject({ keyId: made.id })
  }, 15_000)

  test("an account's new status is seen", async () => {
    const keys = await open()
    const { text } = await keys.create({ kind: 'pay-as-you-go' })
    const database = new Database(join(folder, 'sluice.sqlite'))
    database.run("UPDATE accounts SET status = 'suspended'")
    database.close()
    const deadline = Date.now() + 10_000
    while (keys.identify(bearer(text)).accountStatus === 'healthy' && Date.now() < deadline) await Bun.sleep(20)
    expect(keys.identify(bearer(text)).accountStatus).toBe('suspended')
  }, 15_000)
})

describe('options of a key', () => {
  test('are told with who asks: models, limit, discount of the account', async () => {
    const keys = await open()
    const { id: accountId } = await accounts.create('team', { discount: 1250 })
    const made = await keys.create({
      kind: 'pay-as-you-go',
      account: 'team',
      models: ['openai/*', 'fast'],
      limit: 20_000_000_001n,
      limitPeriod: 'month',
    })
    const found = keys.identify(bearer(made.text))
    expect(found).toMatchObject({
      keyId: made.id,
      accountId,
      discount: 1250,
      limit: { amount: 20_000_000_001n, period: 'month' },
    })
    expect(['openai/gpt-5', 'fast', 'acme/large'].map(found.allows)).toEqual([true, true, false])
    expect((await keys.list())[0]).toMatchObject({
      models: ['openai/*', 'fast'],
      limit: 20_000_000_001n,
      limitPeriod: 'month',
    })
  })

  test('are none by default', async () => {
    const keys = await open()
    const found = keys.identify(bearer((await keys.create({ kind: 'pay-as-you-go' })).text))
    expect(found).not.toContainAnyKeys(['limit', 'requestsPerMinute'])
    expect([found.discount, found.allows('any/thing')]).toEqual([0, true])
    const forever = await keys.create({ kind: 'pay-as-you-go', limit: 0n })
    expect(keys.identify(bearer(forever.text)).limit).toEqual({ amount: 0n, period: null })
  })

  test('need an account that is there', async () => {
    const keys = await open()
    await keys.create({ kind: 'pay-as-you-go' })
    expect(
      await keys.create({ kind: 'pay-as-you-go', account: 'defualt' }).catch((error: Error) => error.message),
    ).toContain('is default meant?')
    expect((await keys.list()).length).toBe(1)
  })
})

describe('rotating', () => {
  const options = {
    kind: 'subscription',
    name: 'ci',
    models: ['openai/*'],
    limit: 5n,
    limitPeriod: 'day',
    requestsPerMinute: 7,
  } as const

  test('gives a new text with the same options, and the old one stops at once', async () => {
    const keys = await open()
    const old = await keys.create({ ...options, models: [...options.models], expiresAt: now + 9000 })
    const before = keys.identify(bearer(old.text))
    now += 1
    const { id, text, old: told } = await keys.rotate(old.text, 0)
    expect(told).toEqual({ id: old.id, kind: 'subscription', worksUntil: null })
    expect(text).toStartWith('sk-ss-v1-')
    expect(outcome(keys, bearer(old.text))).toBe('invalid_api_key')
    const { allows, ...after } = keys.identify(bearer(text))
    const { allows: _, ...same } = before
    expect(after).toEqual({ ...same, keyId: id })
    expect(['openai/x', 'acme/x'].map(allows)).toEqual([true, false])
    const [first, second] = await keys.list()
    expect(second).toEqual({
      ...first!,
      id,
      text: `${text.slice(0, 12)}...${text.slice(-4)}`,
      createdAt: now,
      revokedAt: null,
    })
    now += 8999
    expect(outcome(keys, bearer(text))).toBe('invalid_api_key')
  })

  test('after a grace: both work until then, and the old one can still be revoked', async () => {
    const keys = await open()
    const [one, other] = [await keys.create({ kind: 'pay-as-you-go' }), await keys.create({ kind: 'pay-as-you-go' })]
    const rotated = await keys.rotate(one.id, 1000)
    await keys.rotate(other.id, 1000)
    expect(rotated.old.worksUntil).toBe(now + 1000)
    await keys.revoke(other.id)
    expect([one.text, rotated.text, other.text].map((text) => typeof outcome(keys, bearer(text)))).toEqual([
      'object',
      'object',
      'string',
    ])
    now += 1000
    expect([one.text, rotated.text].map((text) => typeof outcome(keys, bearer(text)))).toEqual(['string', 'object'])
  })

  test('never makes an old key work longer', async () => {
    const keys = await open()
    const { id, text } = await keys.create({ kind: 'pay-as-you-go', expiresAt: now + 500 })
    expect((await keys.rotate(id, 1000)).old.worksUntil).toBe(now + 500)
    now += 500
    expect(outcome(keys, bearer(text))).toBe('invalid_api_key')
  })

  test('is refused for what does not work any more', async () => {
    const keys = await open()
    const [revoked, expired] = [
      await keys.create({ kind: 'pay-as-you-go' }),
      await keys.create({ kind: 'pay-as-you-go', expiresAt: now + 1 }),
    ]
    await keys.revoke(revoked.id)
    now += 1
    for (const { id } of [revoked, expired])
      expect(await keys.rotate(id, 0).catch((error: Error) => error.message)).toMatch(
        /is (revoked|expired) already; sluice keys create/,
      )
    expect((await keys.list()).length).toBe(2)
  })
})

describe('keys of the config file', () => {
  test('work without being stored, as the same key after a restart, and their account is made', async () => {
    const configured: ConfiguredKey[] = [
      {
        key: 'sk-ss-v1-written-in-the-file',
        requestsPerMinute: 3,
        account: 'team',
        models: ['a*'],
        limit: 9n,
        limitPeriod: 'week',
      },
      { key: 'any old text' },
    ]
    const keys = await open(configured)
    const found = keys.identify(bearer('sk-ss-v1-written-in-the-file'))
    expect(found).toMatchObject({ kind: 'subscription', requestsPerMinute: 3, limit: { amount: 9n, period: 'week' } })
    expect(['abc', 'b'].map(found.allows)).toEqual([true, false])
    expect(keys.identify(new Headers({ 'x-api-key': 'any old text' })).kind).toBe('pay-as-you-go')
    expect(await keys.list()).toEqual([])
    expect((await open(configured)).identify(bearer('sk-ss-v1-written-in-the-file')).keyId).toBe(found.keyId)
    expect((await keys.create({ kind: 'subscription', account: 'team' })).account).toBe('team')
  })

  test('do not bring a revoked key back', async () => {
    const { text } = await (await open()).create({ kind: 'pay-as-you-go', text: CHOSEN })
    await (await open()).revoke(text)
    expect(outcome(await open([{ key: CHOSEN }]), bearer(CHOSEN))).toBe('invalid_api_key')
  })
})
