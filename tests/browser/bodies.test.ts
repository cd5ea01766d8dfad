import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser } from './browser.ts'

/** Bodies of requests: switched on for a key, seen, deleted, and hostile. */

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: 'capture: { most: all }\n' })
}, 60_000)
afterAll(() => gateway.stop())

async function send(prompt: string, body: object = {}): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sandbox/messages', messages: [{ role: 'user', content: prompt }], ...body }),
  })
  await response.text()
  return response.headers.get('x-generation-id')!
}

async function openBodies(page: Page, id: string): Promise<void> {
  await page.goto(`${gateway.url}/console/requests/${id}`)
  await page.getByRole('tab', { name: 'Bodies' }).click()
}

const column = (page: Page, name: string) => page.getByRole('region', { name, exact: true })

describe.skipIf(!CAN_BROWSE)('bodies', () => {
  test('can be switched on from a request without them, viewed and deleted', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await openBodies(page, await send('before'))
    await page.getByText('None are stored: capture was off').waitFor()
    await page.getByRole('link', { name: 'Capture the next requests of this key' }).click()
    const sheet = page.getByRole('dialog')
    await sheet.getByRole('combobox', { name: 'Capture' }).click()
    await page.getByRole('option', { name: 'all requests' }).click()
    await sheet.getByRole('button', { name: 'Capture' }).click()
    await sheet.getByText('All requests are captured').waitFor()
    const strip = page.locator('.strip')
    await strip.getByText('Bodies are captured').waitFor()

    await openBodies(page, await send('[[length: 30]] [[pace: 5ms]]', { stream: true }))
    await column(page, 'We answered')
      .getByText(/^\d+ frames$/)
      .waitFor()
    expect(await column(page, 'Client sent').textContent()).toContain('[[length: 30]]')
    expect(await column(page, 'We sent').textContent()).toContain('"max_tokens"')
    expect(await column(page, 'Provider answered').textContent()).toContain('message_start')
    await column(page, 'Provider answered')
      .getByRole('button', { name: /message_start/ })
      .click()
    await column(page, 'Provider answered').getByText('"input_tokens"').first().waitFor()
    await column(page, 'We sent').getByText('POST').click()
    await column(page, 'We sent').getByText('anthropic-version:').waitFor()
    await picture(page, 'bodies')
    await page.getByRole('button', { name: 'As HTTP' }).click()
    const calls = page.getByRole('dialog', { name: 'This page as HTTP' })
    await calls.getByText(/curl '.*\/requests\/[\da-f]+\/bodies'/).waitFor()
    await picture(page, 'as-http')
    await page.keyboard.press('Escape')

    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Yes, delete them' }).click()
    await page.getByText('None are stored: capture was off').waitFor()
    await strip.getByRole('link').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Stop capturing' }).click()
    await strip.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('of all keys and accounts are captured for a time, and no longer', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await page.getByRole('link', { name: 'Settings', exact: true }).click()
    const panel = page.getByRole('region', { name: 'Bodies' })
    await panel.getByRole('button', { name: 'Capture' }).click()
    await panel.getByText('Failed and lossy requests are captured').waitFor()
    await page.locator('.strip').getByRole('link', { name: 'all keys and accounts' }).waitFor()
    await picture(page, 'settings-capture')
    await panel.getByRole('button', { name: 'Stop capturing' }).click()
    await panel.getByRole('button', { name: 'Capture' }).waitFor()
    await page.getByRole('link', { name: 'all keys and accounts' }).waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('the playground shows the wire of both sides of its own request', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/playground' })
    await page.getByRole('button', { name: /^Send/ }).first().click()
    await page
      .getByText(/tokens/)
      .first()
      .waitFor()
    await page.getByRole('tab', { name: 'Wire' }).click()
    await column(page, 'We sent').getByText('POST').waitFor()
    await column(page, 'Provider answered').getByText('HTTP 200').waitFor()
    await picture(page, 'playground-wire')
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('what they contain is text and nothing else, also on a phone', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/accounts/default', viewport: MOBILE })
    await page.getByRole('combobox', { name: 'Time' }).click()
    await page.getByRole('option', { name: 'for good' }).click()
    await page.getByRole('combobox', { name: 'Capture' }).click()
    await page.getByRole('option', { name: 'all requests' }).click()
    await page.getByRole('button', { name: 'Capture', exact: true }).click()
    await page.getByRole('button', { name: 'Yes, until somebody stops it' }).click()
    await page.getByText('All requests are captured, for good').waitFor()

    const hostile = '<img src=x onerror="document.title=1"><script>document.title=1</script>\u202e https://evil.example'
    await openBodies(page, await send(`[[reply: ${hostile}]]`))
    await column(page, 'We answered').getByText('evil.example').waitFor()
    expect(await page.locator('.bodies img, .bodies script, .bodies a').count()).toBe(0)
    expect(await page.title()).not.toBe('1')
    expect(Number(await page.evaluate('document.documentElement.scrollWidth'))).toBeLessThanOrEqual(MOBILE.width)
    await picture(page, 'bodies-mobile')
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
