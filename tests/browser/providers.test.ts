import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
  for (const content of ['Hello', '[[error: 529 too busy]]'])
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content }] }),
    })
}, 60_000)
afterAll(() => gateway.stop())

describe.skipIf(!CAN_BROWSE)('providers in the console', () => {
  test('the sandbox is tested, and a key switches another provider on and off without being shown', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await page.getByRole('link', { name: 'Providers', exact: true }).click()
    const sandbox = page.getByRole('region', { name: 'Sandbox' })
    await sandbox.getByRole('button', { name: 'Test' }).click()
    await sandbox.getByText(/sandbox\/.* answered in/).waitFor()
    await sandbox.getByText(/^2 calls in the last hour, 50 % failed/).waitFor()
    await sandbox.getByText('Last errors').click()
    await sandbox.getByText('too busy').waitFor()

    // The button is the last column of a wide table: nobody has to scroll to it.
    await page.setViewportSize({ width: 1280, height: 800 })
    const button = await page.getByRole('button', { name: 'Set key of Groq' }).boundingBox()
    expect(button!.x + button!.width).toBeLessThanOrEqual(1280)
    const key = `canary-${'0123456789'.repeat(3)}`
    await page.getByRole('button', { name: 'Set key of Groq' }).click()
    await page.getByRole('dialog').locator('input').fill(key)
    await page.getByRole('button', { name: 'Switch it on' }).click()
    const provider = page.getByRole('region', { name: 'Groq' })
    await provider.getByText('...6789').waitFor()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await picture(page, 'providers')
    expect(await page.content()).not.toContain(key)
    await provider.getByRole('button', { name: 'Remove the key' }).click()
    await provider.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('on a phone the key of a provider is set without scrolling sideways', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/providers', viewport: MOBILE })
    const button = page.getByRole('button', { name: 'Set key of Groq' })
    await button.scrollIntoViewIfNeeded()
    const table = page.getByRole('group', { name: 'Providers that are off' })
    expect(await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
    await page.getByText('set GROQ_API_KEY').locator('visible=true').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
