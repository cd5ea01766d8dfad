/** The console by keyboard alone, from the first sign-in to the audit: no pointer, no focus but by Tab and arrows. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { firstLink } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, picture, signIn, useBrowser } from './browser.ts'

const PRICE = 'price: { prompt: 3, completion: 15 }'
const ENDPOINT = 'endpoints: [{ provider: sandbox, model: chat }]'
const CONFIG = `models: { priced/one: { ${ENDPOINT}, ${PRICE} }, priced/two: { ${ENDPOINT}, ${PRICE} } }\n`

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
}, 60_000)
afterAll(() => gateway.stop())

async function complete(prompt: string, { model = 'sandbox/chat', key = gateway.key } = {}): Promise<Response> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: prompt }] }),
  })
  await response.text()
  return response
}

const hasFocus = async (page: Page, element: Locator): Promise<boolean> =>
  (await element.and(page.locator(':focus')).count()) > 0

/** More stops than any page has between two places. */
const STOPS = 120

/** Presses Tab until the element has the focus. */
async function tabTo(page: Page, element: Locator, key = 'Tab'): Promise<void> {
  await element.waitFor()
  // A node is compared in a tenth of the time in which an element is found by its role and name.
  let node = await element.elementHandle()
  for (let stop = 0; stop < STOPS; stop++) {
    const state = await node?.evaluate((one) => (one.matches(':focus') ? 'focus' : one.isConnected))
    if (state === 'focus') return
    if (state !== true) node = await element.elementHandle()
    await page.keyboard.press(key)
  }
  throw new Error(`${STOPS} times ${key} do not reach ${String(element)}`)
}

async function press(page: Page, element: Locator): Promise<void> {
  await tabTo(page, element)
  await page.keyboard.press('Enter')
}

async function go(page: Page, letter: string, title: string): Promise<void> {
  await page.keyboard.press('g')
  await page.keyboard.press(letter)
  await page.getByRole('heading', { name: title, level: 1 }).waitFor()
}

/** Chooses an option of a select. */
async function choose(page: Page, select: Locator, option: string | RegExp): Promise<void> {
  await tabTo(page, select)
  await page.keyboard.press('ArrowDown')
  const wanted = page.getByRole('option', { name: option })
  await wanted.waitFor()
  const id = await wanted.getAttribute('id')
  await settle(page)
  for (let step = 0; (await select.getAttribute('aria-activedescendant')) !== id; step++) {
    if (step === STOPS) throw new Error(`${STOPS} times ArrowDown do not reach ${String(option)}`)
    await page.keyboard.press('ArrowDown')
    await settle(page)
  }
  await page.keyboard.press('Enter')
}

/** Waits for the effect of a key: a select marks its option by a timer, after a render. */
const settle = (page: Page): Promise<unknown> =>
  page.evaluate('new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => setTimeout(resolve)), 20))')

const button = (page: Page | Locator, name: string | RegExp): Locator => page.getByRole('button', { name, exact: true })
const rows = (page: Page) => page.locator('.request-line')
const sheet = (page: Page) => page.getByRole('complementary', { name: 'Request' })

describe.skipIf(!CAN_BROWSE)('by keyboard alone', () => {
  test('the first person becomes the owner and gets an answer', async () => {
    const { page, close, faults } = await browser.open(`${gateway.url}/console/enter#${await firstLink(gateway.data)}`)
    await page.getByLabel('Your name').waitFor()
    await tabTo(page, page.getByLabel('Your name'))
    await page.keyboard.type('Olivia Owner')
    await page.keyboard.press('Enter')
    await press(page, page.getByRole('link', { name: 'Open the playground' }))
    await press(page, button(page, 'Send'))
    await page
      .getByRole('region', { name: 'Answer of sandbox/chat' })
      .getByText(/tokens/)
      .first()
      .waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a key is made and its snippet chosen; the page says that the first request was answered', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'k', 'Keys')
    await press(page, button(page, 'Create a key').first())
    await page.getByRole('dialog', { name: 'Create a key' }).waitFor()
    await tabTo(page, page.getByLabel('Name', { exact: true }))
    await page.keyboard.type('snippet')
    await page.keyboard.press('Enter')
    const made = page.getByRole('dialog', { name: 'The key "snippet"' })
    const key = (await made.getByLabel('key', { exact: true }).textContent())!.trim()
    await choose(page, made.getByRole('combobox').first(), /Codex/)
    await made.getByText('model_provider', { exact: false }).first().waitFor()
    await made.getByText('Waiting for the first request').waitFor()
    await complete('first', { key })
    await made.getByText('The first request was answered').waitFor()
    await press(page, button(made, 'I have copied it'))
    await made.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a request is watched, opened, and found again by its id from another page', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'r', 'Requests')
    await page.locator('.live[data-state=open]').waitFor()
    const sent = complete('[[delay: 1500ms]] [[error: 529 too busy]]')
    await rows(page).filter({ hasText: 'open' }).first().waitFor()
    const id = (await sent).headers.get('x-generation-id')!
    await rows(page).filter({ hasText: 'failed' }).first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await sheet(page).getByText('sandbox answered 529', { exact: false }).waitFor()
    await tabTo(page, sheet(page).getByRole('tab', { name: 'Overview' }))
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await sheet(page).getByRole('tab', { name: 'Raw', selected: true }).waitFor()
    await sheet(page).getByRole('tabpanel', { name: 'Raw' }).getByText('"public_id"').waitFor()
    await page.keyboard.press('Escape')
    await sheet(page).waitFor({ state: 'detached' })

    await go(page, 'b', 'Book')
    await page.keyboard.press('Control+k')
    await page.getByRole('textbox', { name: 'Search' }).waitFor()
    await page.keyboard.type(id)
    await page.getByText('Open this request').waitFor()
    await page.keyboard.press('Enter')
    await sheet(page).getByText('sandbox answered 529', { exact: false }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('spend by model, key and day is what the book has', async () => {
    await complete('[[usage: in=1001 out=7]]', { model: 'priced/one' })
    // 1001 x 3 + 7 x 15 millionths.
    const cost = '0.003108 USD'
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'u', 'Usage')
    await page
      .getByRole('row', { name: /priced\/one/ })
      .getByTitle(cost)
      .waitFor()
    await choose(page, page.getByRole('combobox', { name: 'Group by' }), 'By key')
    await page.getByRole('row', { name: /first/ }).getByTitle(cost).waitFor()
    await choose(page, page.getByRole('combobox', { name: 'Bucket' }), 'Each day')
    await tabTo(page, page.getByRole('tab', { name: /By key/ }))
    await page.keyboard.press('ArrowRight')
    await page.getByRole('region', { name: 'Numbers over time' }).getByTitle(cost).first().waitFor()
    await go(page, 'b', 'Book')
    await page
      .getByRole('row', { name: /revenue/ })
      .getByTitle(cost)
      .first()
      .waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('two models are compared on one prompt', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'p', 'Playground')
    await press(page, button(page, 'Compare'))
    await tabTo(page, page.getByRole('combobox', { name: 'Model 2' }), 'Shift+Tab')
    await page.keyboard.press('Control+a')
    await page.keyboard.type('sandbox/messages')
    await tabTo(page, page.getByLabel('User, turn 1'))
    await page.keyboard.press('Control+a')
    await page.keyboard.type('[[reply: the same]]')
    await page.keyboard.press('Control+Enter')
    await page.getByText('Both answers are the same.').waitFor()
    await press(page, button(page, 'Remove sandbox/messages'))
    await page.getByRole('combobox', { name: 'Model 2' }).waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a limit is raised from the refusal that it caused: two actions and the amount', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'k', 'Keys')
    await press(page, button(page, 'Create a key').first())
    await tabTo(page, page.getByLabel('Name', { exact: true }))
    await page.keyboard.type('poor')
    await press(page, page.getByText('Limits, models, expiry'))
    await tabTo(page, page.getByLabel('Spending limit, USD'))
    await page.keyboard.type('0.000001')
    await page.keyboard.press('Enter')
    const made = page.getByRole('dialog', { name: 'The key "poor"' })
    const key = (await made.getByLabel('key', { exact: true }).textContent())!.trim()
    await press(page, button(made, 'I have copied it'))
    await made.waitFor({ state: 'detached' })
    expect((await complete('too dear', { key, model: 'priced/one' })).status).toBe(402)

    await go(page, 'r', 'Requests')
    await rows(page).filter({ hasText: 'insufficient_credit' }).first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await press(page, sheet(page).getByRole('link', { name: "Raise the key's limit" }))
    const limit = page.getByRole('dialog', { name: 'poor' }).getByLabel('Spending limit, USD')
    await limit.waitFor()
    await page.getByRole('dialog', { name: 'poor' }).locator(':focus').waitFor()
    expect(await hasFocus(page, limit)).toBe(true)
    await page.keyboard.press('Control+a')
    await page.keyboard.type('5')
    await page.keyboard.press('Enter')
    await page.getByText('of 5.00').first().waitFor()
    expect((await complete('fine now', { key, model: 'priced/one' })).status).toBe(200)
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a provider is tested, its errors read, and another one switched on with a key', async () => {
    await complete('[[error: 529 too busy]]')
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'v', 'Providers')
    const sandbox = page.getByRole('region', { name: 'Sandbox', exact: true })
    await press(page, sandbox.getByText('Last errors'))
    await sandbox.getByText('too busy').first().waitFor()
    await press(page, button(sandbox, 'Test'))
    await sandbox.getByText(/sandbox\/.* answered in/).waitFor()
    await press(page, button(page, 'Set key of Groq'))
    await page.getByRole('dialog').waitFor()
    await tabTo(page, page.getByRole('dialog').locator('input'))
    await page.keyboard.type('canary-0123456789')
    await page.keyboard.press('Enter')
    const groq = page.getByRole('region', { name: 'Groq' })
    await groq.getByText('...6789').waitFor()
    await press(page, button(groq, 'Remove the key'))
    await groq.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a person is given access to an account, and loses it', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'e', 'People')
    await press(page, button(page, 'Invite'))
    const dialog = page.getByRole('dialog')
    await tabTo(page, dialog.getByLabel('Name'))
    await page.keyboard.type('Mia Member')
    await choose(page, dialog.getByRole('combobox', { name: 'Where' }), 'default')
    await choose(page, dialog.getByRole('combobox', { name: 'Role' }), /^member/)
    await press(page, button(dialog, 'Create the link'))
    await press(page, button(page, 'I have copied it'))
    const row = page.getByRole('row', { name: /Mia Member.*member of default/ })
    await press(page, button(row, 'Mia Member'))
    await press(page, button(page.getByRole('dialog', { name: 'Mia Member' }), 'Remove'))
    await press(page, button(page, 'Remove the person'))
    await row.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('the book is audited', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await go(page, 'b', 'Book')
    await press(page, button(page, 'Audit now'))
    await page.locator('.audit-right').waitFor()
    await picture(page, 'book-audited')
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})

describe.skipIf(!CAN_BROWSE)('by mouse', () => {
  test('spend by model, key and day is what the book has, and the audit says that it is right', async () => {
    await complete('[[usage: in=2002 out=14]]', { model: 'priced/two' })
    // 2002 x 3 + 14 x 15 millionths.
    const cost = '0.006216 USD'
    const { page, close, faults } = await signIn(browser, gateway)
    const open = (name: string): Promise<void> => page.getByRole('link', { name, exact: true }).click()
    const pick = async (select: string, option: string): Promise<void> => {
      await page.getByRole('combobox', { name: select }).click()
      await page.getByRole('option', { name: option, exact: true }).click()
    }
    await open('Usage')
    const row = page.getByRole('row', { name: /priced\/two/ })
    await row.getByTitle(cost).waitFor()
    await pick('And then by', 'then key')
    await page
      .getByRole('row', { name: /priced\/two.*first/ })
      .getByTitle(cost)
      .waitFor()
    await pick('Bucket', 'Each day')
    await page.getByRole('tab', { name: /Over time/ }).click()
    await page.getByRole('region', { name: 'Numbers over time' }).getByTitle(cost).first().waitFor()
    await open('Book')
    await page.getByText('0.006216', { exact: true }).first().waitFor()
    await button(page, 'Audit now').click()
    await page.locator('.audit-right').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
