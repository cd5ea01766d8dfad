import { expect, test } from 'bun:test'
import type { AccountAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway } from '../server.ts'
import { ownerOf } from './browser.ts'

test('an amount that the store cannot have is refused with its name', async () => {
  const gateway = await startGateway()
  try {
    const owner = await ownerOf(gateway)
    const { id } = (await owner.post<AccountAnswer>('/accounts', { name: 'team' })).json
    const credit = (amount: string) => owner.post(`/accounts/${id}/credits`, { amount_usd: amount })
    expect(await credit('9999999999')).toMatchObject({ status: 400, json: { error: { param: 'amount_usd' } } })
    expect((await credit('999999999.999999999')).status).toBe(201)
    const key = await owner.post('/keys', { kind: 'pay-as-you-go', account: id, limit_usd: '9999999999' })
    expect(key).toMatchObject({ status: 400, json: { error: { param: 'limit_usd' } } })
  } finally {
    await gateway.stop()
  }
})
