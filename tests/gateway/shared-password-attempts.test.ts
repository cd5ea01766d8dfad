import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { Browser } from '../management/browser.ts'
import { type Gateway, startGateway } from '../server.ts'
import { newPostgresFolder } from '../stores.ts'

/** Wrong passwords at two gateways over one PostgreSQL. */

const PASSWORD = 'a long password'

let folder: string
let gateways: Gateway[]
beforeAll(async () => {
  folder = newPostgresFolder()
  const env = { SLUICE_OWNER: 'ann@example.com', SLUICE_OWNER_PASSWORD: PASSWORD }
  gateways = [await startGateway({ data: folder, env })]
  gateways.push(await startGateway({ data: folder, env }))
}, 60_000)
afterAll(async () => {
  for (const gateway of gateways) await gateway.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const sign = async (at: number, client: string, email: string, password = 'wrong'): Promise<number> => {
  const headers = { 'x-forwarded-for': client }
  return (await new Browser(gateways[at % 2]!.url).ask('POST', '/session', { email, password }, headers)).status
}

test('ten wrong passwords that are spread over both are the most at each, for an address and for a name', async () => {
  for (let count = 0; count < 10; count++) expect(await sign(count, '203.0.113.1', `u${count}@example.com`)).toBe(401)
  for (const at of [0, 1]) expect(await sign(at, '203.0.113.1', 'other@example.com')).toBe(422)
  // The address from which a person has signed in at one of them is counted apart at both.
  expect(await sign(0, '203.0.113.2', 'ann@example.com', PASSWORD)).toBe(201)
  for (let count = 0; count < 10; count++) expect(await sign(count, `198.51.100.${count}`, 'ann@example.com')).toBe(401)
  for (const at of [0, 1]) {
    expect(await sign(at, '198.51.100.99', 'ann@example.com', PASSWORD)).toBe(422)
    expect(await sign(at, '203.0.113.2', 'ann@example.com', PASSWORD)).toBe(201)
  }
}, 60_000)
