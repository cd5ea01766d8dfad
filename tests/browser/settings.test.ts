import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser, violationsOn } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
const config = `
timeouts: { idle: 40s }
models:
  sandbox/mine: { endpoints: [{ provider: sandbox, model: chat }] }
`
beforeAll(async () => {
  gateway = await startGateway({ config })
}, 60_000)
afterAll(() => gateway.stop())

const KEY = 'canary-0123456789-abcd'
const open = (page: Page, name: string): Promise<void> => page.getByRole('link', { name, exact: true }).click()

describe.skipIf(!CAN_BROWSE)('settings in the console', () => {
  test('a provider and a model are set up, refused at the field, changed and removed', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await open(page, 'Providers')
    await page.getByRole('button', { name: 'Add a provider' }).click()
    const form = page.getByRole('dialog')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByText('This field is required.').waitFor()
    expect(await form.getByLabel('Id, as in the names of its models').getAttribute('aria-invalid')).toBe('true')
    await form.getByLabel('Id, as in the names of its models').fill('acme')
    await form.getByLabel('Protocol').click()
    await page.getByRole('option', { name: 'messages' }).click()
    await form.getByLabel('Base URL').fill('ftp://acme.example')
    await form.getByLabel('Key', { exact: true }).fill(KEY)
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByText('baseUrl: must be an http:// or https:// URL').waitFor()
    expect(await form.getByLabel('Base URL').getAttribute('aria-invalid')).toBe('true')
    await picture(page, 'provider-refused')
    await form.getByLabel('Base URL').fill('https://acme.example')
    await form.getByRole('button', { name: 'Save' }).click()
    const card = page.getByRole('region', { name: 'acme' })
    await card.getByText('...abcd').waitFor()
    await form.waitFor({ state: 'hidden' })
    expect(await page.content()).not.toContain(KEY)

    await open(page, 'Models')
    await page.getByRole('button', { name: 'Add a model' }).click()
    await form.getByLabel('Name, as clients use it').fill('acme/large')
    await form.getByLabel('Endpoints, in their order').fill('acme/large-2\nsandbox/chat')
    await form.getByLabel('Price of input').fill('3')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.waitFor({ state: 'detached' })
    await page.getByText('acme/large').first().waitFor()

    await open(page, 'Providers')
    await card.getByRole('button', { name: 'Change acme' }).click()
    await form.getByRole('button', { name: 'Remove' }).click()
    await form.getByText(/refers to the provider acme/).waitFor()
    await form.getByLabel('Display name').fill('Acme Ltd')
    await form.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('region', { name: 'Acme Ltd' }).getByText('...abcd').waitFor()
    await picture(page, 'provider-set')
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('each setting is named once, and found by a part of its name', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/settings' })
    const names = page.getByRole('table').getByRole('row')
    await names.filter({ hasText: 'routing.strategy' }).waitFor()
    expect(await names.filter({ hasText: 'timeouts.idle' }).count()).toBe(1)
    await page.keyboard.press('/')
    await page.keyboard.type('HEDGE')
    await names.filter({ hasText: 'timeouts.idle' }).waitFor({ state: 'detached' })
    expect(await names.filter({ hasText: 'routing.hedge' }).count()).toBe(1)
    await page.getByText('No setting has this name').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a setting and a plan are changed by keyboard alone', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await open(page, 'Settings')
    const table = page.getByRole('table').first()
    await table.getByRole('row', { name: 'timeouts.idle' }).getByText('test-config.yaml:2').waitFor()
    expect(await page.getByRole('button', { name: 'Change timeouts.idle' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Change timeouts.total' }).focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Value').waitFor()
    await page.keyboard.type('9')
    await page.keyboard.press('Enter')
    await dialog.getByText(/must be a duration|must be .*the unit is missing/).waitFor()
    await page.keyboard.type('0s')
    await page.keyboard.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await table.getByRole('row', { name: /timeouts\.total console 90s/ }).waitFor()

    await open(page, 'Plans')
    await page.getByRole('button', { name: 'Add a plan' }).focus()
    await page.keyboard.press('Enter')
    await dialog.getByLabel('Name').focus()
    for (const text of ['team', '7', '1', '2', '3']) {
      await page.keyboard.type(text)
      await page.keyboard.press('Tab')
    }
    await dialog.getByRole('button', { name: 'Save' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: /team 7\.00/ }).waitFor()
    await picture(page, 'plan-set')
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test.each([
    ['light', undefined],
    ['dark', MOBILE],
  ] as const)(
    'axe finds nothing in the forms, %s',
    async (scheme, viewport) => {
      const view = { scheme, bypassCSP: true, ...(viewport === undefined ? {} : { viewport }) }
      const { page, close } = await signIn(browser, gateway, view)
      for (const [path, button] of [
        ['providers', 'Add a provider'],
        ['models', 'Add a model'],
        ['plans', 'Add a plan'],
        ['settings', 'Change strict'],
      ] as const) {
        await page.goto(`${gateway.url}/console/${path}`)
        await page.getByRole('button', { name: button }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Save' }).waitFor()
        expect([path, await violationsOn(page)]).toEqual([path, []])
        await picture(page, `form-${path}-${scheme}`)
      }
      await close()
    },
    90_000,
  )
})
