import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { type Browser, ownerOf } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  gateway = await startGateway()
  owner = await ownerOf(gateway)
}, 60_000)
afterAll(() => gateway.stop())

const dialog = (page: Page, name: string | RegExp) => page.getByRole('dialog', { name })

/** A request of a client with the new key. */
const complete = (key: string, model = 'sandbox/chat'): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
  })

describe.skipIf(!CAN_BROWSE)('keys in the console', () => {
  test('a key is copied where the page has no right to the clipboard', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/keys?create=1' })
    await page.getByRole('button', { name: 'Create the key' }).click()
    const text = (await page.getByLabel('key', { exact: true }).textContent())!.trim()
    await page.getByRole('button', { name: 'Copy key' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Copied key' }).and(page.locator(':focus')).waitFor()
    await page.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByLabel('Filter keys').focus()
    await page.keyboard.press('Control+v')
    expect(await page.getByLabel('Filter keys').inputValue()).toBe(text)
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a key is made by keyboard alone, its text is shown once, and works', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await page.keyboard.press('g')
    await page.keyboard.press('k')
    await page.getByRole('heading', { name: 'Keys', level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Create a key' }).first().focus()
    await page.keyboard.press('Enter')
    await dialog(page, 'Create a key').waitFor()
    await page.getByLabel('Name', { exact: true }).waitFor()
    await page.keyboard.type('by keyboard')
    await page.keyboard.press('Enter')
    const made = dialog(page, 'The key "by keyboard"')
    await made.waitFor()
    const text = (await made.getByLabel('key', { exact: true }).textContent())!.trim()
    expect(text).toMatch(/^sk-ai-v1-[\w-]{16,}$/)
    expect(await made.getByLabel('Terminal', { exact: true }).textContent()).toContain(`ANTHROPIC_AUTH_TOKEN=${text}`)
    expect(await made.getByLabel('Terminal', { exact: true }).textContent()).toContain(
      `ANTHROPIC_BASE_URL=${gateway.url}`,
    )
    await picture(page, 'keys-made')
    expect((await complete(text)).status).toBe(200)

    expect(page.url()).not.toContain(text)
    await made.getByRole('button', { name: 'I have copied it' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'by keyboard' }).waitFor()
    expect(await page.content()).not.toContain(text)
    const stored = await page.evaluate(() =>
      JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)]),
    )
    expect(stored).not.toContain(text)
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a limit is raised from the sheet of a key, and a revoked key is refused', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/keys?create=1' })
    await page.getByLabel('Name', { exact: true }).fill('limited')
    await page.getByText('Limits, models, expiry').click()
    await page.getByLabel('Spending limit, USD').fill('0.5')
    await picture(page, 'keys-make')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const made = dialog(page, 'The key "limited"')
    const text = (await made.getByLabel('key', { exact: true }).textContent())!.trim()
    await made.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByText('0.50', { exact: false }).first().waitFor()
    await picture(page, 'keys')

    expect((await complete(text)).status).toBe(200)
    expect((await complete(text, 'sandbox/none')).status).toBe(404)

    await page.getByRole('button', { name: 'limited' }).click()
    const sheet = dialog(page, 'limited')
    await sheet.getByText('0.00 USD, 1 request, 0 of them failed; 1 refused besides').waitFor()
    await sheet.getByRole('figure', { name: 'Requests by day: 1 in 30 days' }).waitFor()
    await sheet.getByLabel('Spending limit, USD').fill('20')
    await sheet.getByRole('button', { name: 'Save' }).click()
    await sheet.getByText('of 20.00').waitFor()
    await picture(page, 'keys-sheet')

    await sheet.getByRole('button', { name: 'Revoke' }).click()
    await page.getByRole('button', { name: 'Revoke it' }).click()
    await sheet.waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'limited' }).waitFor({ state: 'detached' })
    expect((await complete(text)).status).toBe(401)
    await page.getByLabel('Show revoked').check({ force: true })
    await page.getByRole('row', { name: /limited.*revoked/ }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('the usage of a key is of this key alone, and leads to its requests', async () => {
    const { id, text } = (await owner.post('/keys', { kind: 'pay-as-you-go', account: 'default', name: 'one of two' }))
      .json as { id: string; text: string }
    for (const key of [gateway.key, text]) expect((await complete(key)).status).toBe(200)
    const { page, close, faults } = await signIn(browser, gateway, { path: `/keys/${id}` })
    await page.getByRole('link', { name: 'Usage of this key' }).click()
    const sum = page.getByRole('row', { name: /^All/ }).getByRole('cell').nth(1)
    await page.getByRole('button', { name: 'Remove the filter Key: one of two' }).waitFor()
    expect(await sum.textContent()).toBe('1')
    expect(await page.getByRole('link', { name: 'sandbox/chat' }).getAttribute('href')).toContain(`key=${id}`)
    await page.getByRole('button', { name: 'Remove the filter Key: one of two' }).click()
    await page.getByRole('row', { name: /^All [2-9]/ }).waitFor()
    expect(page.url()).not.toContain(id)
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a refused value is said at its field, and the form stays', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/keys?create=1', viewport: MOBILE })
    await page.getByLabel('Name', { exact: true }).fill('phone')
    await page.getByText('Limits, models, expiry').click()
    await page.getByRole('combobox', { name: 'Models' }).fill('no!model')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await dialog(page, 'Create a key').getByRole('alert').waitFor()
    await picture(page, 'keys-make-refused-mobile')
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('phone')
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
