import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser, waitUntil } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
}, 60_000)
afterAll(() => gateway.stop())

const CONFIG =
  'models: { priced/one: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: 3, completion: 15 } } }\n'

type Sent = { text: string; status: number; id: string }

/** A request of a client. */
async function complete(prompt: string, { model = 'sandbox/chat', key = gateway.key, agent = 'tests/1.0' } = {}) {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'user-agent': agent },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: prompt }] }),
  })
  const text = await response.text()
  return { text, status: response.status, id: response.headers.get('x-generation-id') ?? '' } satisfies Sent
}

const rows = (page: Page) => page.locator('.request-line')
const sheet = (page: Page) => page.getByRole('complementary', { name: 'Request' })

/** The outcomes of rows that are not shown in full. */
const CUT_OUTCOMES = `[...document.querySelectorAll('[role=gridcell][data-column=outcome]')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ textContent }) => textContent)`

async function opened(query = '', view = {}) {
  const all = await signIn(browser, gateway, { path: `/requests${query}`, ...view })
  await all.page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor()
  return all
}

describe.skipIf(!CAN_BROWSE)('the list of requests', () => {
  test('a request appears when it begins, and changes when it ends', async () => {
    const { page, close, faults } = await opened()
    await page.locator('.live[data-state=open]').waitFor()
    const sent = complete('[[delay: 1500ms]] [[error: 529 too busy]]')
    await rows(page).filter({ hasText: 'open' }).first().waitFor()
    expect((await sent).status).toBeGreaterThanOrEqual(500)
    const row = rows(page).filter({ hasText: 'failed' }).first()
    await row.waitFor()
    await rows(page).filter({ hasText: 'open' }).waitFor({ state: 'detached' })

    await row.locator('[data-column=time]').click()
    await sheet(page).getByText('sandbox answered 529', { exact: false }).waitFor()
    await sheet(page).getByText('Nothing was charged.', { exact: false }).waitFor()
    await sheet(page).getByRole('listitem').filter({ hasText: 'chat, chat.completions' }).first().waitFor()
    await sheet(page).getByRole('link', { name: 'Try the model' }).waitFor()
    await picture(page, 'requests-failed')
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('its usual columns fit into a page of any width, and show codes in full', async () => {
    await complete('too wide?', { model: 'no/such' })
    await complete('[[error: 400 code=context_length_exceeded too long]]')
    const { page, close } = await opened()
    await rows(page).filter({ hasText: 'model_not_found' }).first().waitFor()
    await rows(page).filter({ hasText: 'context_length_exceeded' }).first().waitFor()
    for (const width of [1440, 1354, 1353, 1280, 1268, 1267, 1100, 1046, 1045, 768, 721]) {
      await page.setViewportSize({ width, height: 800 })
      await rows(page).filter({ hasText: 'model_not_found' }).first().waitFor()
      await waitUntil(page, `innerWidth === ${width} && document.documentElement.scrollWidth <= ${width}`)
      expect([width, await page.evaluate(CUT_OUTCOMES)]).toEqual([width, []])
    }
    // No model of this name can be tried.
    await rows(page).filter({ hasText: 'model_not_found' }).first().click()
    await sheet(page).getByRole('button', { name: 'Copy link' }).waitFor()
    expect(await sheet(page).getByRole('link', { name: 'Try the model' }).count()).toBe(0)
    await close()
  }, 60_000)

  test('can be searched, moved through, opened, copied and closed by keyboard', async () => {
    const ids = [(await complete('one')).id, (await complete('two')).id]
    const { page, context, close, faults } = await opened()
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await rows(page).nth(1).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.locator('.request-line[aria-selected=true]').waitFor()
    await page.keyboard.press('Enter')
    await sheet(page).getByText('Answered by sandbox', { exact: false }).waitFor()
    const url = page.url()
    await page.keyboard.press('[')
    await page.waitForURL((now) => now.href !== url)
    await page.keyboard.press(']')
    await page.waitForURL(url)
    await page.keyboard.press('c')
    await page.getByText('Id copied').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
    await page.keyboard.press('Escape')
    await sheet(page).waitFor({ state: 'detached' })

    await page.keyboard.press('/')
    await page.keyboard.type(`the client showed "id": "${ids[1]}"`)
    await sheet(page).getByText(ids[1]!.slice(-12), { exact: false }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('an id in any form is found by the palette, and the request has a page of its own', async () => {
    const { id } = await complete('find me')
    const { page, close, faults } = await opened()
    await page.keyboard.press('Control+k')
    await page.getByRole('textbox', { name: 'Search' }).fill(id.replace('chatcmpl-', ''))
    await page.getByText('Open this request').first().click()
    await page.getByText('Answered by sandbox', { exact: false }).waitFor()
    await page.goto(`${gateway.url}/console/requests/${id}`)
    await page.getByText('Answered by sandbox', { exact: false }).waitFor()
    await page.getByRole('tab', { name: 'Raw' }).click()
    await page.getByText('"finish_reason"').waitFor()
    await picture(page, 'request')
    await page.goto(`${gateway.url}/console/requests/${'0'.repeat(32)}`)
    await page.getByRole('alert').waitFor()
    await picture(page, 'request-unknown')
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a click on a value filters by it, with Alt it is left out, and the filters are in the URL', async () => {
    await complete('x', { agent: 'alpha/1' })
    await complete('x', { agent: 'beta/2' })
    const { page, close, faults } = await opened()
    const cell = (text: string) => rows(page).locator('.cell-value', { hasText: text }).first()
    await cell('alpha/1').click()
    await page.waitForURL(/client=alpha/)
    await rows(page).filter({ hasText: 'beta/2' }).first().waitFor({ state: 'detached' })
    expect(await rows(page).filter({ hasText: 'alpha/1' }).count()).toBeGreaterThan(0)
    await page.getByRole('button', { name: /Remove the filter client/ }).click()
    await cell('alpha/1').click({ modifiers: ['Alt'] })
    await page.waitForURL(/not_client=alpha/)
    await rows(page).filter({ hasText: 'alpha/1' }).first().waitFor({ state: 'detached' })

    await page.goto(`${gateway.url}/console/requests?client=never`)
    await page.getByText('No request in this range fits the filters').waitFor()
    await picture(page, 'requests-none')
    await page.getByRole('button', { name: 'Clear the filters' }).click()
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Outcome' }).click()
    await page.getByRole('checkbox', { name: /failed/ }).check()
    await page.waitForURL(/outcome=failed/)
    await page.keyboard.press('Escape')
    await picture(page, 'requests-filtered')
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a click on a word of the outcome filters by what it says', async () => {
    await complete('[[no-usage]] counted here')
    await complete('x', { model: 'no/such' })
    const { page, close, faults } = await opened()
    const word = (text: string) => rows(page).locator('.cell-value', { hasText: text }).first()
    await word('model_not_found').click()
    await page.waitForURL(({ search }) => search === '?code=model_not_found')
    await word('refused').click({ modifiers: ['Alt'] })
    await page.waitForURL(/not_outcome=refused/)
    await page.getByRole('button', { name: 'Clear the filters' }).click()
    await word('estimated').click()
    await page.waitForURL(({ search }) => search === '?estimated=true')
    await word('estimated').click({ modifiers: ['Alt'] })
    await page.waitForURL(({ search }) => search === '?estimated=false')
    await rows(page).filter({ hasText: 'estimated' }).first().waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('all rows of the filters are exported', async () => {
    await complete('x', { agent: 'exported/1' })
    const { page, close, faults } = await opened('?client=exported/1')
    await rows(page).first().waitFor()
    for (const [name, line] of [
      ['CSV', 'exported/1'],
      ['JSON lines', '"client":"exported/1"'],
    ] as const) {
      await page.getByRole('button', { name: 'Export', exact: true }).click()
      const file = page.waitForEvent('download')
      await page.getByRole('menuitem', { name }).click()
      const text = await Bun.file(await (await file).path()).text()
      expect(text).toContain(line)
      expect(text).not.toContain('tests/1.0')
    }
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a narrow screen has rows of two lines, and details over the whole of it', async () => {
    await complete('narrow')
    const { page, close, faults } = await opened('', { viewport: MOBILE, scheme: 'dark' })
    await rows(page).first().waitFor()
    await picture(page, 'requests-mobile-dark')
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(MOBILE.width)
    await rows(page)
      .first()
      .click({ position: { x: 330, y: 45 } })
    await sheet(page).getByText('Answered by', { exact: false }).waitFor()
    expect((await sheet(page).boundingBox())?.width).toBe(MOBILE.width)
    await picture(page, 'request-mobile-dark')
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})

describe.skipIf(!CAN_BROWSE)('a refusal', () => {
  test('leads to the limit that it was for', async () => {
    const { page, close, faults } = await opened()
    await page.goto(`${gateway.url}/console/keys?create=1`)
    await page.getByLabel('Name', { exact: true }).fill('poor')
    await page.getByText('Limits, models, expiry').click()
    await page.getByLabel('Spending limit, USD').fill('0.000001')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const made = page.getByRole('dialog', { name: 'The key "poor"' })
    const key = (await made.getByLabel('key', { exact: true }).textContent())!.trim()
    expect((await complete('too dear', { key, model: 'priced/one' })).status).toBe(402)

    await page.goto(`${gateway.url}/console/requests?outcome=refused`)
    await rows(page).filter({ hasText: 'insufficient_credit' }).first().locator('[data-column=time]').click()
    await picture(page, 'request-refused')
    // The first click of two.
    await sheet(page).getByRole('link', { name: "Raise the key's limit" }).click()
    await page.getByRole('dialog', { name: 'poor' }).getByLabel('Spending limit, USD').fill('5')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('of 5.00').first().waitFor()
    expect((await complete('fine now', { key, model: 'priced/one' })).status).toBe(200)
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
