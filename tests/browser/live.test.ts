/** The list of requests while many come, while it is scrolled, and without its server. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, picture, signIn, useBrowser, waitUntil } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: 'limits: { requestsPerMinute: 1000000 }\n' })
}, 60_000)
afterAll(() => gateway.stop())

/** Budgets of the page. */
const NODES_MOST = 2500
const ROWS_MOST = 80
const AT_ONCE = 25

async function complete(agent: string): Promise<void> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', 'user-agent': agent },
    body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'hi' }] }),
  })
  await response.text()
}

/** As fast as it goes, the last one by an agent of its own. */
async function flood(requests: number, last: string): Promise<void> {
  let left = requests
  const run = async (): Promise<void> => {
    while (left-- > 0) await complete('flood/1')
  }
  await Promise.all(Array.from({ length: AT_ONCE }, run))
  await complete(last)
}

const rowOf = (page: Page, text: string) => page.locator('.request-line').filter({ hasText: text }).first()

const sizeOf = async (page: Page): Promise<{ nodes: number; rows: number }> =>
  (await page.evaluate(`({
    nodes: document.querySelectorAll('*').length,
    rows: document.querySelectorAll('.request-line').length,
  })`)) as { nodes: number; rows: number }

async function expectWithinBudget(page: Page): Promise<void> {
  const { nodes, rows } = await sizeOf(page)
  expect(rows).toBeGreaterThan(0)
  expect(rows).toBeLessThanOrEqual(ROWS_MOST)
  expect(nodes).toBeLessThanOrEqual(NODES_MOST)
}

async function opened() {
  const all = await signIn(browser, gateway, { path: '/requests' })
  await all.page.locator('.live[data-state=open]').waitFor()
  return all
}

describe.skipIf(!CAN_BROWSE)('the live list', () => {
  test('a flood of requests keeps it small, and its last one is shown', async () => {
    const { page, close, faults } = await opened()
    const sent = flood(1200, 'last-of-flood/1')
    let isOver = false
    void sent.then(() => {
      isOver = true
    })
    await rowOf(page, 'flood/1').waitFor()
    while (!isOver) {
      await expectWithinBudget(page)
      await Bun.sleep(200)
    }
    await sent
    await rowOf(page, 'last-of-flood/1').waitFor()
    await page.locator('.request-line[data-outcome=open]').first().waitFor({ state: 'detached' })
    await expectWithinBudget(page)
    await picture(page, 'requests-flood')
    expect(faults).toEqual([])
    await close()
  }, 180_000)

  test('scrolling draws the list alone, new rows wait above it, and a click shows them', async () => {
    await flood(400, 'before/1')
    const { page, close, faults } = await opened()
    await rowOf(page, 'before/1').waitFor()
    await page.evaluate(`
      window.outside = []
      new MutationObserver((changes) => {
        for (const { target } of changes) {
          const element = target.nodeType === 1 ? target : target.parentElement
          if (element.closest('.list, .requests-foot, [aria-live], .bars') === null && !element.matches('.requests'))
            window.outside.push(element.outerHTML.slice(0, 120))
        }
      }).observe(document.querySelector('.shell'), { subtree: true, childList: true, attributes: true })
    `)
    for (let turn = 0; turn < 12; turn++) {
      await page.mouse.move(700, 600)
      await page.mouse.wheel(0, 900)
      await Bun.sleep(50)
    }
    await waitUntil(page, 'document.documentElement.scrollTop > 5000')
    await waitUntil(page, `[...document.querySelectorAll('.request-line[data-index]')].at(-1)?.dataset.index > 150`)
    await expectWithinBudget(page)
    expect(await page.evaluate('window.outside')).toEqual([])

    const shown = async (): Promise<string> =>
      String(await page.evaluate(`document.elementFromPoint(700, 500).closest('.request-line').textContent`))
    const before = await shown()
    await complete('while-away/1')
    await page.getByRole('button', { name: /^\d+ new$/ }).waitFor()
    expect(await shown()).toBe(before)
    await picture(page, 'requests-waiting')
    await page.getByRole('button', { name: /^\d+ new$/ }).click()
    await rowOf(page, 'while-away/1').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 180_000)

  test('without its stream it says so, and shows what it missed when the stream is back', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    let isDown = true
    await page.route('**/requests/stream*', (route) => (isDown ? route.abort() : route.continue()))
    await page.goto(`${gateway.url}/console/requests`)
    await page.getByText('not connected').first().waitFor()
    await complete('offline/1')
    isDown = false
    await rowOf(page, 'offline/1').waitFor()
    await page.locator('.live[data-state=open]').waitFor()
    await complete('online/1')
    await rowOf(page, 'online/1').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 180_000)

  test('a page of activity asks at most four questions', async () => {
    const { page, close } = await signIn(browser, gateway)
    for (const path of ['requests', 'usage', 'book']) {
      const asked: string[] = []
      const listen = (request: { url(): string }): void => {
        const { pathname } = new URL(request.url())
        if (/^\/v1\/management\/(?!session|accounts)/.test(pathname)) asked.push(pathname)
      }
      page.on('request', listen)
      await page.goto(`${gateway.url}/console/${path}`)
      await page.locator('.request-line, .table tbody tr').first().waitFor()
      await waitUntil(page, `document.querySelector('[aria-busy=true]') === null`)
      page.off('request', listen)
      expect(new Set(asked).size).toBeGreaterThan(0)
      expect(new Set(asked).size).toBeLessThanOrEqual(4)
    }
    await close()
  }, 120_000)
})
