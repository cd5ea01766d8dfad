import { describe, expect, test } from 'bun:test'
import { bearer, identify, KeyFixture } from './key-fixture.ts'

const fixture = new KeyFixture()

describe('rotation', () => {
  const options = {
    kind: 'subscription',
    name: 'ci',
    models: ['openai/*'],
    limit: 5n,
    limitPeriod: 'day',
    requestsPerMinute: 7,
  } as const

  test('rotation creates a key with the same options and revokes the old one at once', async () => {
    const keys = await fixture.open()
    const old = await keys.create({ ...options, models: [...options.models], expiresAt: fixture.now + 9000 })
    const before = keys.identify(bearer(old.text))
    fixture.now += 1
    const { id, text, old: replaced } = await keys.rotate(old.text, 0)
    expect(replaced).toEqual({ id: old.id, kind: 'subscription', worksUntil: null })
    expect(text).toStartWith('sk-ss-v1-')
    expect(identify(keys, bearer(old.text))).toBe('invalid_api_key')
    const { allows, ...after } = keys.identify(bearer(text))
    const { allows: _, ...same } = before
    expect(after).toEqual({ ...same, keyId: id })
    expect(['openai/x', 'acme/x'].map(allows)).toEqual([true, false])
    const [first, second] = await keys.list()
    expect(second).toEqual({
      ...first!,
      id,
      text: `${text.slice(0, 12)}...${text.slice(-4)}`,
      createdAt: fixture.now,
      revokedAt: null,
    })
    fixture.now += 8999
    expect(identify(keys, bearer(text))).toBe('invalid_api_key')
  })

  test('both keys work during the grace period, and the old one can still be revoked', async () => {
    const keys = await fixture.open()
    const [one, other] = [await keys.create({ kind: 'pay-as-you-go' }), await keys.create({ kind: 'pay-as-you-go' })]
    const rotated = await keys.rotate(one.id, 1000)
    await keys.rotate(other.id, 1000)
    expect(rotated.old.worksUntil).toBe(fixture.now + 1000)
    await keys.revoke(other.id)
    expect([one.text, rotated.text, other.text].map((text) => typeof identify(keys, bearer(text)))).toEqual([
      'object',
      'object',
      'string',
    ])
    fixture.now += 1000
    expect([one.text, rotated.text].map((text) => typeof identify(keys, bearer(text)))).toEqual(['string', 'object'])
  })

  test.each([0, 1000])('of rotations in the same instant one replaces the key, grace %p', async (graceMs) => {
    const keys = await fixture.open()
    const { id } = await keys.create({ kind: 'pay-as-you-go' })
    const rotations = await Promise.allSettled([1, 2, 3].map(() => keys.rotate(id, graceMs)))
    expect(rotations.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect((await keys.list()).filter(({ revokedAt }) => revokedAt === null).length).toBe(graceMs === 0 ? 1 : 2)
  })

  test('rotation never extends the old key', async () => {
    const keys = await fixture.open()
    const { id, text } = await keys.create({ kind: 'pay-as-you-go', expiresAt: fixture.now + 500 })
    expect((await keys.rotate(id, 1000)).old.worksUntil).toBe(fixture.now + 500)
    fixture.now += 500
    expect(identify(keys, bearer(text))).toBe('invalid_api_key')
  })

  test('rotation of an expired or revoked key is refused', async () => {
    const keys = await fixture.open()
    const [revoked, expired] = [
      await keys.create({ kind: 'pay-as-you-go' }),
      await keys.create({ kind: 'pay-as-you-go', expiresAt: fixture.now + 1 }),
    ]
    await keys.revoke(revoked.id)
    fixture.now += 1
    for (const { id } of [revoked, expired])
      expect(await keys.rotate(id, 0).catch((error: Error) => error.message)).toMatch(
        /is already (revoked|expired); sluice keys create/,
      )
    expect((await keys.list()).length).toBe(2)
  })
})
