import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { AccountAnswer, Page as Rows } from '../../src/endpoints/management/answers.ts'
import { type Browser, ownerOf } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
let owner: Browser
let accounts: AccountAnswer[]
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
  for (let number = 0; number < 51; number++) await owner.post('/accounts', { name: `team-${number}` })
  accounts = (await owner.get<Rows<AccountAnswer>>('/accounts?limit=200')).json.data
  const account = accounts.find(({ name }) => name === 'default')!.id
  for (let number = 0; number < 201; number++)
    await owner.post('/keys', { kind: 'pay-as-you-go', account, name: `key ${number}` })
}, 60_000)
afterAll(() => gateway.stop())

const goTo = async (page: Page, path: string): Promise<void> => {
  await page.goto(`${gateway.url}/console${path}`)
  await page.locator('h1').waitFor()
}

async function openedAt(path: string) {
  const opened = await signIn(browser, gateway, { path })
  await opened.page.locator('h1').waitFor()
  return opened
}

describe.skipIf(!CAN_BROWSE)('lists that are longer than a page of the API', () => {
  test('every account can be chosen, and every key is found', async () => {
    const { page, close, faults } = await openedAt('/accounts')
    const last = accounts.at(-1)!
    await page.getByRole('row').filter({ hasText: last.name }).first().waitFor()
    expect(await page.getByRole('row', { name: /healthy/ }).count()).toBe(52)
    await page.getByPlaceholder('All accounts').fill(last.name)
    await page.getByRole('option', { name: last.name, exact: true }).click()
    await page.waitForURL(new RegExp(`account=${last.id}`))
    await goTo(page, '/keys')
    await page.getByLabel('Filter keys').fill('key 0')
    await page.getByRole('button', { name: 'key 0', exact: true }).waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'key 0', exact: true }).waitFor()
    expect(await page.getByRole('row').count()).toBe(2)
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('the change log of another account begins with its first page', async () => {
    const { page, close, faults } = await openedAt('/people?show=changes')
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByRole('button', { name: 'Back' }).and(page.locator(':enabled')).waitFor()
    await page.getByPlaceholder('All accounts').fill('team-50')
    await page.getByRole('option', { name: 'team-50' }).click()
    await page.getByRole('row', { name: /account.create/ }).waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})

describe.skipIf(!CAN_BROWSE)('the address of a page', () => {
  test('one step back closes what a click on a name has opened', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    for (const [path, name] of [
      ['/accounts', 'default'],
      ['/people', 'Owner'],
      ['/keys?q=key+7', 'key 7'],
    ] as const) {
      await goTo(page, path)
      await page.getByRole('button', { name, exact: true }).click()
      await page.getByRole('dialog').waitFor()
      await page.goBack()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    }
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('models are filtered by it, also by the palette, and all are shown again in its account', async () => {
    const { page, close, faults } = await openedAt(`/models?provider=sandbox&account=${accounts[0]!.id}`)
    await page.keyboard.press('Control+k')
    await page.getByRole('textbox', { name: 'Search' }).fill('sandbox/gemini')
    await page.getByRole('dialog').getByText('sandbox/gemini', { exact: true }).click()
    await page.getByRole('row', { name: /sandbox\/chat/ }).waitFor({ state: 'detached' })
    expect(await page.getByLabel('Filter models').inputValue()).toBe('sandbox/gemini')
    await goTo(page, `/models?provider=sandbox&account=${accounts[0]!.id}`)
    await page.getByRole('row', { name: /sandbox\/image.* 0.01 an image/ }).waitFor()
    await page.getByRole('button', { name: /show all/ }).click()
    await page.waitForURL(({ search }) => search === `?account=${accounts[0]!.id}`)
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
