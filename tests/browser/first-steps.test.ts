import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { firstLink, signedIn } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, picture, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
}, 60_000)
afterAll(() => gateway.stop())

/** Questions that a page may ask before it is drawn; those of the frame around it are asked once. */
const CALLS_OF_PAGE = 4
const NODES = 2500
const PAGES = ['Home', 'Requests', 'Usage', 'Keys', 'Accounts', 'People', 'Models', 'Providers', 'Plans', 'Settings']

/** On beside the sandbox: the questions of a page do not grow with its cards. */
const PROVIDERS = ['groq', 'openai', 'anthropic', 'deepseek', 'xai']

/** Waits until nothing is loading. The page's policy refuses functions of the test that are given as text. */
async function settled(page: Page): Promise<void> {
  const loading = page.locator('[aria-busy=true]')
  while ((await loading.count()) > 0) await loading.first().waitFor({ state: 'detached' })
}

describe.skipIf(!CAN_BROWSE)('the first steps in the console', () => {
  test('an answer of the sandbox is three clicks from the first link', async () => {
    const { page, close, faults } = await browser.open(`${gateway.url}/console/enter#${await firstLink(gateway.data)}`)
    await page.getByLabel('Your name').fill('Olivia Owner')
    await page.getByRole('button', { name: 'Become the owner' }).click()
    await page.getByRole('heading', { name: 'First steps' }).waitFor()
    await picture(page, 'home-first')
    await page.getByRole('link', { name: 'Open the playground' }).click()
    await page.getByRole('button', { name: /^Send/ }).first().click()
    await page
      .getByText(/tokens/)
      .first()
      .waitFor()
    await picture(page, 'playground-first')
    await page.getByRole('link', { name: 'Requests', exact: true }).click()
    await page.getByText('sandbox/').first().waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('each page asks at most four questions, and draws few elements', async () => {
    const owner = await signedIn(gateway, 'Other owner', [{ scope: 'installation', role: 'owner' }])
    for (const id of PROVIDERS)
      expect((await owner.change('PUT', `/providers/${id}/key`, { key: `test-${id}-0123456789` })).status).toBe(204)
    const { page, close, faults } = await signIn(browser, gateway)
    await settled(page)
    const over: string[] = []
    for (const name of PAGES) {
      const asked = new Set<string>()
      const count = (request: { url(): string }): void => {
        const { pathname, search } = new URL(request.url())
        if (pathname.startsWith('/v1/management/')) asked.add(pathname + search)
      }
      page.on('request', count)
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()
      await page.getByRole('heading', { name, level: 1 }).waitFor()
      await settled(page)
      page.off('request', count)
      const nodes = await page.locator('*').count()
      if (asked.size > CALLS_OF_PAGE) over.push(`${name}: ${[...asked].join(' ')}`)
      if (nodes > NODES) over.push(`${name}: ${nodes} elements`)
    }
    expect(over).toEqual([])
    expect(faults).toEqual([])
    await close()
  }, 90_000)
})
