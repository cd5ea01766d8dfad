import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { ConfiguredKey } from '../../src/accounts/keys.ts'
import { GatewayError } from '../../src/error.ts'
import { ofSqlite, sqlIn } from '../stores.ts'
import { bearer, identify, KeyFixture } from './key-fixture.ts'

const fixture = new KeyFixture()
const CHOSEN = 'sk-ai-v1-chosen_by_the_operator'

describe('the first start', () => {
  test('the first start creates one account and one key of each kind, once', async () => {
    const keys = await fixture.open()
    const first = await keys.start()
    expect(first.map(({ kind }) => kind)).toEqual(['pay-as-you-go', 'subscription', 'management'])
    const identities = first.map(({ text }) => keys.identify(bearer(text)))
    expect(identities.map(({ kind }) => kind)).toEqual(['pay-as-you-go', 'subscription', 'management'])
    expect(new Set(identities.map(({ accountId }) => accountId)).size).toBe(1)
    expect(identities[0]?.accountStatus).toBe('healthy')
    expect(await keys.start()).toEqual([])
    expect(await (await fixture.open()).start()).toEqual([])
  })

  test('the first start creates keys beside those of the configuration file', async () => {
    const keys = await fixture.open([{ key: 'sk-ai-v1-written-in-the-file', kind: 'pay-as-you-go' }])
    expect((await keys.start()).length).toBe(3)
    expect(await keys.start()).toEqual([])
  })

  test('the first start uses SLUICE_KEY as its pay-as-you-go key, and later starts add an unknown one', async () => {
    const keys = await fixture.open()
    const first = await keys.start({ SLUICE_KEY: CHOSEN })
    expect(first[0]).toEqual({ kind: 'pay-as-you-go', text: CHOSEN })
    expect(first.length).toBe(3)
    expect(await keys.start({ SLUICE_KEY: CHOSEN })).toEqual([])
    expect(await keys.start({ SLUICE_KEY: '' })).toEqual([])
    const another = `${CHOSEN}_2`
    expect(await keys.start({ SLUICE_KEY: another })).toEqual([{ kind: 'pay-as-you-go', text: another }])
    expect(await keys.start({ SLUICE_KEY: another })).toEqual([])
    expect(keys.identify(bearer(another)).accountId).toBe(keys.identify(bearer(CHOSEN)).accountId)
  })

  test('the management key that the operator chose is an owner of the installation, and no other key is', async () => {
    const keys = await fixture.open()
    await keys.start({ SLUICE_MANAGEMENT_KEY: 'sk-mg-v1-chosen_by_the_operator' })
    const roles = (await fixture.stores[0]!.accounts.keys()).map(({ kind, role, scope }) => [kind, role, scope])
    expect(roles.sort()).toEqual([
      ['management', 'owner', 'installation'],
      ['pay-as-you-go', null, null],
      ['subscription', null, null],
    ])
  })

  test('an invalid or revoked SLUICE_KEY is refused', async () => {
    const keys = await fixture.open()
    for (const bad of [
      'x',
      'sk-ai-v1-short',
      'sk-ss-v1-0123456789abcdef',
      'sk-ai-v1-0123456789 abcdef',
      `${CHOSEN}\n`,
    ]) {
      expect(await keys.start({ SLUICE_KEY: bad }).catch((error: Error) => error.message)).toMatch(
        /^SLUICE_KEY must be sk-ai-v1- and 16 to 200/,
      )
    }
    await keys.start({ SLUICE_KEY: CHOSEN })
    await keys.revoke(CHOSEN)
    expect(await keys.start({ SLUICE_KEY: CHOSEN }).catch((error: Error) => error.message)).toMatch(/revoked/)
  })
})

describe('key text', () => {
  test('a key consists of prefix, 43 digits and the checksum of both', async () => {
    const keys = await fixture.open()
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

  ofSqlite('files')('no part of a key is in the data folder, and its hash needs the pepper', async () => {
    const keys = await fixture.open()
    const { text } = await keys.create({ kind: 'subscription', name: 'mine' })
    for (const file of readdirSync(fixture.folder)) {
      const bytes = readFileSync(join(fixture.folder, file))
      expect(bytes.includes(text.slice(0, 16))).toBe(false)
      expect(bytes.includes(new Bun.CryptoHasher('sha256').update(text).digest())).toBe(false)
    }
    expect(statSync(join(fixture.folder, 'pepper')).mode & 0o777).toBe(0o600)
    expect(statSync(join(fixture.folder, 'pepper')).size).toBe(32)
    expect((await keys.list())[0]).toMatchObject({
      kind: 'subscription',
      name: 'mine',
      account: 'default',
      text: `${text.slice(0, 12)}...${text.slice(-4)}`,
    })
  })
})

describe('pepper', () => {
  ofSqlite('files')(
    'a missing, truncated or replaced pepper fails the start instead of refusing every key',
    async () => {
      await fixture.open()
      for (const [content, message] of [
        [Buffer.alloc(32, 1), /does not match the keys/],
        [Buffer.alloc(31), /must have 32 bytes/],
        [undefined, /is missing/],
      ] as const) {
        if (content === undefined) rmSync(join(fixture.folder, 'pepper'))
        else writeFileSync(join(fixture.folder, 'pepper'), content)
        expect(
          await fixture.open().then(
            () => 'opened',
            (error: Error) => error.message,
          ),
        ).toMatch(message)
      }
    },
  )
})

describe('identify', () => {
  test('a key is read from three headers, the scheme in any case', async () => {
    const keys = await fixture.open()
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

  test('everything else is refused with one message, keys of providers and revoked ones too', async () => {
    const keys = await fixture.open()
    const { text } = await keys.create({ kind: 'pay-as-you-go' })
    const hash = new Bun.CryptoHasher('sha256').update(text).digest('hex')
    const revoked = await keys.create({ kind: 'pay-as-you-go' })
    await keys.revoke(revoked.text)
    const refused: Record<string, string>[] = [
      {},
      { authorization: `Bearer ${revoked.text}` },
      { authorization: 'Bearer sk-ant-api03-abc' },
      { 'x-goog-api-key': 'AIzaSyAbc' },
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
    // An active key first, so that its cache entry is tried too.
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
      'A key of this Sluice is required, in the header "Authorization: Bearer KEY", "x-api-key" or "x-goog-api-key". ' +
        'The key is missing, malformed, unknown, expired or revoked, or one of a model provider.',
    ])
  })

  test('the first header with an active key decides', async () => {
    const keys = await fixture.open()
    const [one, two] = [await keys.create({ kind: 'pay-as-you-go' }), await keys.create({ kind: 'subscription' })]
    expect(keys.identify(new Headers({ authorization: `Bearer ${one.text}`, 'x-api-key': two.text })).keyId).toBe(
      one.id,
    )
    expect(keys.identify(new Headers({ authorization: 'Bearer left-over', 'x-api-key': two.text })).keyId).toBe(two.id)
  })

  test('a key is refused from the instant it expires, cached or not', async () => {
    const keys = await fixture.open()
    const { text } = await keys.create({ kind: 'pay-as-you-go', expiresAt: fixture.now + 1000 })
    expect(identify(keys, bearer(text))).toBeObject()
    fixture.now += 999
    expect(identify(keys, bearer(text))).toBeObject()
    fixture.now += 1
    expect(identify(keys, bearer(text))).toBe('invalid_api_key')
    expect(identify(keys, new Headers({ 'x-api-key': text }))).toBe('invalid_api_key')
  })
})

describe('revocation', () => {
  test('a key is revoked by id, text or listed prefix, at once in this process', async () => {
    const keys = await fixture.open()
    for (const which of [
      ({ id }: { id: string }) => id,
      ({ text }: { text: string }) => text,
      ({ text }: { text: string }) => text.slice(0, 12),
    ]) {
      const key = await keys.create({ kind: 'management' })
      expect(identify(keys, bearer(key.text))).toBeObject()
      expect(await keys.revoke(which(key))).toEqual({ id: key.id })
      expect(identify(keys, bearer(key.text))).toBe('invalid_api_key')
      expect(await keys.revoke(key.id)).toEqual({ id: key.id })
    }
  })

  test('an unknown key and an ambiguous prefix are refused', async () => {
    const keys = await fixture.open()
    await keys.start()
    await keys.create({ kind: 'pay-as-you-go' })
    for (const unknown of ['key_none', 'sk-ai-v1-none_of_them', '', '%'])
      expect(await keys.revoke(unknown).catch((error: Error) => error.message)).toMatch(/no stored key/)
    expect(await keys.revoke('sk-ai-v1-').catch((error: Error) => error.message)).toMatch(
      /several keys begin like this/,
    )
    expect((await keys.list()).every(({ revokedAt }) => revokedAt === null)).toBe(true)
  })

  test('revocations and new keys of another process take effect', async () => {
    const server = await fixture.open()
    const { text } = await server.create({ kind: 'pay-as-you-go' })
    const other = await fixture.open()
    const made = await other.create({ kind: 'subscription' })
    await other.revoke(text)
    const deadline = Date.now() + 10_000
    while (typeof identify(server, bearer(text)) === 'object' && Date.now() < deadline) await Bun.sleep(20)
    expect(identify(server, bearer(text))).toBe('invalid_api_key')
    expect(identify(server, bearer(made.text))).toMatchObject({ keyId: made.id })
  }, 15_000)

  test("an account's new status takes effect", async () => {
    const keys = await fixture.open()
    const { text } = await keys.create({ kind: 'pay-as-you-go' })
    expect(keys.isBlocked(keys.identify(bearer(text)).accountId)).toBe(false)
    await sqlIn(fixture.folder, "UPDATE accounts SET status = 'suspended'")
    const deadline = Date.now() + 10_000
    while (keys.identify(bearer(text)).accountStatus === 'healthy' && Date.now() < deadline) await Bun.sleep(20)
    const { accountId, accountStatus } = keys.identify(bearer(text))
    expect([accountStatus, keys.isBlocked(accountId)]).toEqual(['suspended', true])
  }, 15_000)
})

describe('key options', () => {
  test('the identity has models, limit and the discount of the account', async () => {
    const keys = await fixture.open()
    const { id: accountId } = await fixture.accounts.create('team', { discount: 1250 })
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

  test('a key has no restrictions by default', async () => {
    const keys = await fixture.open()
    const found = keys.identify(bearer((await keys.create({ kind: 'pay-as-you-go' })).text))
    expect(found).not.toContainAnyKeys(['limit', 'requestsPerMinute'])
    const [stored] = await fixture.stores[0]!.accounts.keys()
    expect(stored).toMatchObject({ idempotency: true, createdBy: null, source: null, role: null })
    expect([found.discount, found.allows('any/thing')]).toEqual([0, true])
    const forever = await keys.create({ kind: 'pay-as-you-go', limit: 0n })
    expect(keys.identify(bearer(forever.text)).limit).toEqual({ amount: 0n, period: null })
  })

  test('a key for an unknown account is refused', async () => {
    const keys = await fixture.open()
    await keys.create({ kind: 'pay-as-you-go' })
    expect(
      await keys.create({ kind: 'pay-as-you-go', account: 'defualt' }).catch((error: Error) => error.message),
    ).toContain('did you mean default?')
    expect((await keys.list()).length).toBe(1)
  })
})

describe('keys of the configuration file', () => {
  test('a configured key works without being stored and keeps its id, and its account is created', async () => {
    const configured: ConfiguredKey[] = [
      {
        key: 'sk-ss-v1-written-in-the-file',
        name: 'of the file',
        kind: 'subscription',
        requestsPerMinute: 3,
        account: 'team',
        models: ['a*'],
        limit: 9n,
        limitPeriod: 'week',
      },
      { key: 'any old text', kind: 'pay-as-you-go' },
    ]
    const keys = await fixture.open(configured)
    const found = keys.identify(bearer('sk-ss-v1-written-in-the-file'))
    expect(found).toMatchObject({ kind: 'subscription', requestsPerMinute: 3, limit: { amount: 9n, period: 'week' } })
    expect(found.keyName).toBe('of the file')
    expect(['abc', 'b'].map(found.allows)).toEqual([true, false])
    expect(keys.identify(new Headers({ 'x-api-key': 'any old text' })).kind).toBe('pay-as-you-go')
    expect(await keys.list()).toEqual([])
    expect((await fixture.open(configured)).identify(bearer('sk-ss-v1-written-in-the-file')).keyId).toBe(found.keyId)
    expect((await keys.create({ kind: 'subscription', account: 'team' })).account).toBe('team')
  })

  test('a configured key that was revoked stays revoked', async () => {
    const { text } = await (await fixture.open()).create({ kind: 'pay-as-you-go', text: CHOSEN })
    await (await fixture.open()).revoke(text)
    expect(identify(await fixture.open([{ key: CHOSEN, kind: 'pay-as-you-go' }]), bearer(CHOSEN))).toBe(
      'invalid_api_key',
    )
  })
})
