import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Role } from '../../src/accounts/roles.ts'
import type { AccountAnswer, Page as Rows } from '../../src/endpoints/management/answers.ts'
import { ownerOf, signedIn } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
let accounts: AccountAnswer[]
beforeAll(async () => {
  gateway = await startGateway()
  const owner = await ownerOf(gateway)
  await owner.post('/accounts', { name: 'team' })
  accounts = (await owner.get<Rows<AccountAnswer>>('/accounts')).json.data
}, 60_000)
afterAll(() => gateway.stop())

/** The page at `path`, for a new user with these roles. */
async function signInAs(name: string, path: string, roles: Role[]) {
  const { cookie } = await signedIn(gateway, name, roles)
  const opened = await browser.open(`${gateway.url}/console${path}`, { cookie })
  await opened.page.locator('h1').waitFor()
  return opened
}

const goTo = async (page: Page, path: string): Promise<void> => {
  await page.goto(`${gateway.url}/console${path}`)
  await page.locator('h1').waitFor()
}

describe.skipIf(!CAN_BROWSE)('roles', () => {
  test('whoever may read the change log finds it, and no one else is led to it', async () => {
    const viewer = await signInAs('Vera', '/people', [{ scope: 'installation', role: 'viewer' }])
    await viewer.page.getByText('Change log').click()
    await viewer.page
      .getByRole('row', { name: /session.begin/ })
      .first()
      .waitFor()
    await viewer.close()
    const member = await signInAs('Mia', '/people?show=changes', [{ scope: accounts[0]!.id, role: 'member' }])
    await member.page.getByRole('button', { name: /^Mia/ }).waitFor()
    expect(await member.page.getByText('Change log').count()).toBe(0)
    expect(member.faults).toEqual([])
    await member.close()
  }, 60_000)

  test('a member reads which page the role leaves out, and that lists have requests of own keys alone', async () => {
    const failed = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: '[[error: 400 wrong]]' }] }),
    })
    expect(failed.status).toBe(400)
    const { page, close, faults } = await signInAs('Max', '/', [{ scope: accounts[0]!.id, role: 'member' }])
    await page.getByText('No request of your keys has failed').waitFor()
    await page.goto(`${gateway.url}/console/settings`)
    await page.getByRole('heading', { name: 'Your role does not include the page Settings', level: 1 }).waitFor()
    await page.goto(`${gateway.url}/console/nowhere`)
    await page.getByRole('heading', { name: 'There is no such page', level: 1 }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('the playground and new keys are of an account in which their user may make keys', async () => {
    const [seen, used] = [accounts[0]!, accounts.at(-1)!]
    const { page, close, faults } = await signInAs('Paul', '/playground', [
      { scope: seen.id, role: 'viewer' },
      { scope: used.id, role: 'member' },
    ])
    await page.getByPlaceholder('Ask something').fill('hello')
    await page.getByRole('button', { name: 'Send' }).click()
    await page
      .getByText(/You said: "hello"/)
      .first()
      .waitFor()
    await goTo(page, '/keys?create=1')
    const dialog = page.getByRole('dialog', { name: 'Create a key' })
    await dialog.getByRole('button', { name: 'Create the key' }).click()
    await page.getByRole('button', { name: 'I have copied it' }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
