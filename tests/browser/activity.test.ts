/** Usage, the playground, the book and jobs. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, cutOffOn, DESKTOP, MOBILE, picture, signIn, useBrowser } from './browser.ts'

const PRICE = 'price: { prompt: 3, completion: 15 }'
const ENDPOINT = 'endpoints: [{ provider: sandbox, model: chat }]'
const CONFIG = `models: { priced/one: { ${ENDPOINT}, ${PRICE} }, priced/two: { ${ENDPOINT}, ${PRICE} } }\n`

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: CONFIG })
}, 60_000)
afterAll(() => gateway.stop())

const send = (path: string, body: object): Promise<unknown> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).then((response) => response.json())

const complete = (model: string, prompt: string): Promise<unknown> =>
  send('/v1/chat/completions', { model, messages: [{ role: 'user', content: prompt }] })
const predict = (model: string, input: object): Promise<unknown> => send('/v1/predictions', { model, input })

const prompt = (page: Page) => page.getByLabel('User, turn 1')
const column = (page: Page, model: string) => page.getByRole('region', { name: `Answer of ${model}` })

describe.skipIf(!CAN_BROWSE)('usage', () => {
  test('the sums are those of the book to the nano-USD, and lead to their requests', async () => {
    for (const usage of ['in=1001 out=7', 'in=333 out=1', 'in=1 out=1'])
      await complete('priced/one', `[[usage: ${usage}]]`)
    await complete('priced/two', '[[usage: in=10 out=10]]')
    // 1335 x 3 + 9 x 15 and 10 x 3 + 10 x 15 millionths.
    const { page, close, faults } = await signIn(browser, gateway, { path: '/usage' })
    await page
      .getByRole('row', { name: /priced\/one/ })
      .getByTitle('0.00414 USD')
      .waitFor()
    await page
      .getByRole('row', { name: /priced\/two/ })
      .getByTitle('0.00018 USD')
      .waitFor()
    await page.getByRole('row', { name: /^All/ }).getByTitle('0.00432 USD').waitFor()
    await picture(page, 'usage')

    await page.getByRole('tab', { name: /Over time/ }).click()
    await page.getByRole('region', { name: 'Numbers over time' }).getByText('0.00414').waitFor()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page
        .getByRole('button', { name: 'Export' })
        .click()
        .then(() => page.getByRole('menuitem', { name: /CSV/ }).click()),
    ])
    const csv = readFileSync(await file.path(), 'utf8')
    expect(csv.split('\r\n')[0]).toMatch(/^hour \(Europe\/Berlin\),cost priced\/one,cost priced\/two/)
    expect(csv).toContain('0.00414,0.00018')

    await page.getByRole('radiogroup', { name: 'Metric' }).getByText('Requests').click()
    await page.waitForURL(/metric=requests/)
    await page.getByRole('tab', { name: 'By model' }).click()
    await page.getByRole('link', { name: 'priced/two' }).click()
    await page.waitForURL(/requests\?model=priced/)
    await page.locator('.request-line').first().waitFor()
    expect(await page.locator('.request-line').count()).toBe(1)
    expect(faults).toEqual([])
    await close()
  }, 90_000)
})

describe.skipIf(!CAN_BROWSE)('usage on a phone', () => {
  test('the cost of each model is seen without scrolling, and refused requests lead to their list', async () => {
    await complete('priced/unknown', 'hello')
    const { page, close, faults } = await signIn(browser, gateway, { path: '/usage', viewport: MOBILE })
    const { x, width } = (await page.getByRole('columnheader', { name: 'Cost, USD' }).boundingBox())!
    expect(x + width).toBeLessThanOrEqual(MOBILE.width)
    await page.getByRole('link', { name: 'refused requests' }).click()
    await page.getByText('outcome: refused').waitFor()
    // Home says that its number of requests is without them.
    await page.keyboard.press('g')
    await page.keyboard.press('h')
    await page.getByRole('link', { name: /^Failed.* of 4; 1 refused besides/ }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})

describe.skipIf(!CAN_BROWSE)('the playground', () => {
  test('an answer comes by keyboard alone, with reasoning, tool call, wire and code', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await page.keyboard.press('g')
    await page.keyboard.press('p')
    await prompt(page).waitFor()
    await prompt(page).focus()
    await page.keyboard.type('[[think: easy]] [[reply: Hello there]] [[call: get_weather {"city":"Paris"}]]')
    await page.keyboard.press('Control+Enter')
    const answer = column(page, 'sandbox/chat')
    await answer.getByText('Hello there', { exact: true }).waitFor()
    await answer.getByText('get_weather').waitFor()
    await answer.getByText('Reasoning, 4 characters').waitFor()
    expect(await answer.getByText('easy', { exact: true }).isVisible()).toBe(false)
    await answer.getByRole('link', { name: 'Request' }).waitFor()
    await answer.getByText('0.00 USD', { exact: false }).waitFor()
    await picture(page, 'playground')
    await answer.getByRole('tab', { name: 'Received' }).click()
    await answer.getByText('[DONE]').waitFor()
    await answer.getByRole('tab', { name: 'Sent' }).click()
    await answer.getByText('POST /v1/chat/completions').waitFor()
    await page.getByRole('button', { name: 'Code' }).click()
    const code = page.getByRole('dialog').getByLabel('curl', { exact: true }).last()
    expect(await code.textContent()).toContain('[[reply: Hello there]]')
    expect(await page.content()).not.toContain('sk-ai-v1-')
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test.each(['Responses', 'Messages', 'generateContent'])(
    '%s is spoken, and explained',
    async (protocol) => {
      const { page, close, faults } = await signIn(browser, gateway, { path: '/playground' })
      await page.getByRole('combobox', { name: 'Protocol' }).click()
      await page.getByRole('option', { name: protocol }).click()
      await prompt(page).fill('[[reply: In other words]]')
      await page.getByRole('button', { name: 'Send' }).click()
      await column(page, 'sandbox/chat').getByText('In other words', { exact: true }).waitFor()
      await prompt(page).fill('[[error: 429 slow down]]')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('alert').filter({ hasText: 'slow down' }).waitFor()
      await page.getByRole('button', { name: 'Explain' }).click()
      const explained = page.getByRole('dialog', { name: 'What would be sent' })
      await explained.getByText('/v1/chat/completions', { exact: false }).waitFor()
      await explained.getByText('[[error: 429 slow down]]', { exact: false }).waitFor()
      await picture(page, `playground-explain-${protocol}`)
      expect(faults).toEqual([])
      await close()
    },
    90_000,
  )

  test('models are compared, edited JSON rules, and a link has the request without key and answer', async () => {
    const { page, context, close, faults } = await signIn(browser, gateway, { path: '/playground' })
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.getByRole('combobox', { name: 'Model 2' }).fill('sandbox/messages')
    await prompt(page).fill('[[reply: the same]]')
    await page.getByRole('tab', { name: 'JSON' }).click()
    const body = page.getByLabel('Body of the request')
    await body.fill((await body.inputValue()).replace('the same', 'edited'))
    await page.getByRole('button', { name: 'Send' }).click()
    for (const model of ['sandbox/chat', 'sandbox/messages'])
      await column(page, model).getByText('edited', { exact: true }).waitFor()
    await page.getByText('Both answers are the same.').waitFor()
    await picture(page, 'playground-compare')
    await page.getByRole('button', { name: 'Share' }).click()
    await page.getByText('Link copied').waitFor()
    const link = String(await page.evaluate('navigator.clipboard.readText()'))
    expect(Buffer.from(new URL(link).hash.slice(1), 'base64url').toString()).not.toContain('sk-ai')

    const other = await context.newPage()
    await other.goto(link)
    await other.getByRole('combobox', { name: 'Model 2' }).waitFor()
    expect(await other.getByLabel('Body of the request').inputValue()).toContain('edited')
    await other.waitForURL(/playground$/)
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('a long body is cut into lines beside the page, and only those that are seen are on it', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/playground' })
    await page.getByRole('tab', { name: 'JSON' }).click()
    const messages = Array.from({ length: 4000 }, (_, index) => ({ role: 'user', content: `number ${index}` }))
    await page.getByLabel('Body of the request').fill(JSON.stringify({ model: 'sandbox/chat', messages }))
    await page.getByRole('button', { name: 'Send' }).click()
    await column(page, 'sandbox/chat').getByText('number 3999', { exact: false }).waitFor()
    await column(page, 'sandbox/chat').getByRole('tab', { name: 'Sent' }).click()
    await page.locator('.json-line').filter({ hasText: '"messages"' }).waitFor()
    expect(await page.locator('.json-line').nth(2).textContent()).toBe('  "messages": [')
    expect(await page.locator('.json-line').count()).toBeLessThan(100)
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('an image of an answer is shown; one at an address of another host is not loaded', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/playground?model=sandbox/image' })
    await prompt(page).fill('a red fox')
    await page.getByRole('button', { name: 'Send' }).click()
    const image = column(page, 'sandbox/image').getByRole('img', { name: 'Made by the model' })
    await image.waitFor()
    expect(await page.evaluate("document.querySelector('.answer-image').naturalWidth")).toBeGreaterThan(0)
    await picture(page, 'playground-image')
    const url = 'https://outside.example/a.png'
    const message = { role: 'assistant', content: '', images: [{ type: 'image_url', image_url: { url } }] }
    await page.getByRole('switch', { name: 'Stream' }).click()
    await prompt(page).fill(`[[raw: ${JSON.stringify({ choices: [{ message, finish_reason: 'stop' }] })}]]`)
    await page.getByRole('combobox', { name: 'Model' }).fill('sandbox/chat')
    await page.getByRole('button', { name: 'Send' }).click()
    await column(page, 'sandbox/chat').getByText(url).waitFor()
    expect(await page.getByRole('img', { name: 'Made by the model' }).count()).toBe(0)
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('a request that is refused leads to its page, and to what can be done', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/playground?model=acme/none' })
    await prompt(page).fill('hello')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByText('The page Models lists those that are on.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Send' }).click()
    await column(page, 'acme/none').getByRole('link', { name: 'Request', exact: true }).click()
    await page.getByRole('link', { name: 'See the models' }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('a stream that hangs can be stopped', async () => {
    const { page, close, faults } = await signIn(browser, gateway, {
      path: '/playground',
      viewport: MOBILE,
      scheme: 'dark',
    })
    await page.getByRole('button', { name: /Sandbox does/ }).click()
    await page.getByRole('menuitem', { name: 'No answer at all' }).click()
    expect(await prompt(page).inputValue()).toBe('[[hang]]')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('button', { name: 'Stop' }).click()
    await column(page, 'sandbox/chat').getByText('stopped').waitFor()
    await picture(page, 'playground-mobile-dark')
    expect(faults).toEqual([])
    await close()
  }, 90_000)
})

describe.skipIf(!CAN_BROWSE)('the book', () => {
  test('it adds up to zero, its postings lead to requests, and the audit says that it is right', async () => {
    await complete('priced/one', '[[usage: in=1000 out=10]]')
    const { page, close, faults } = await signIn(browser, gateway, { path: '/book' })
    await page
      .getByRole('row', { name: /^Together/ })
      .getByTitle('0 USD', { exact: true })
      .waitFor()
    await page.getByRole('button', { name: 'Audit now' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('.audit-right').waitFor()
    await picture(page, 'book')
    await page.getByRole('link', { name: 'request', exact: true }).first().click()
    await page.getByText('Answered by sandbox', { exact: false }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 90_000)
})

describe.skipIf(!CAN_BROWSE)('jobs', () => {
  test('one is seen as it proceeds, canceled, and leads to its request', async () => {
    const { page, close, faults } = await signIn(browser, gateway, { path: '/jobs' })
    await page.getByText('No jobs yet').waitFor()
    await page.getByText('8 predictions of an account run at once, 1,000 more may wait.').waitFor()
    await picture(page, 'jobs-empty')
    await page.setViewportSize(MOBILE)
    expect(await cutOffOn(page)).toEqual([])
    await page.setViewportSize(DESKTOP)
    expect(await page.getByLabel('command', { exact: true }).textContent()).toContain(`${gateway.url}/v1/predictions`)
    const input = { prompt: 'a red fox', duration: 300, logs: 1000 }
    const { id } = (await predict('sandbox/prediction', input)) as { id: string }
    const job = page.getByRole('row', { name: /sandbox\/prediction/ })
    await job.getByText('running').waitFor()
    await job.getByRole('progressbar', { name: `Progress of ${id}` }).waitFor()
    expect(await job.textContent()).not.toContain('canceled')
    await page.getByText('default: 1 of 8 running.').waitFor()
    await picture(page, 'jobs')
    const image = (await predict('sandbox/image', { prompt: 'a red fox' })) as { id: string }
    await page.getByRole('button', { name: `Files of ${image.id}` }).click()
    const file = page.getByRole('dialog').getByRole('listitem').filter({ hasText: 'image/png' })
    const [opened] = await Promise.all([
      page.context().waitForEvent('page'),
      file.getByRole('link', { name: 'Open' }).click(),
    ])
    expect(opened.url()).toStartWith(`${gateway.url}/v1/outputs/`)
    await opened.close()
    await picture(page, 'job-files')
    await page.keyboard.press('Escape')
    await job.getByRole('button', { name: `Cancel ${id}` }).click()
    await page.getByRole('button', { name: 'Cancel it' }).click()
    await job.getByText('canceled').waitFor()
    await job.getByTitle('0.001 USD').last().waitFor()
    await page.getByLabel('Only those under way').click()
    await page.getByText('Nothing is under way').waitFor()
    await page.getByRole('button', { name: 'Show all jobs' }).click()
    await job.getByRole('link', { name: 'sandbox/prediction' }).click()
    await page.getByRole('heading', { name: 'sandbox/prediction' }).waitFor()
    await page.getByRole('button', { name: 'Copy link' }).waitFor()
    expect(await page.getByRole('link', { name: 'Try the model' }).count()).toBe(0)
    await page.getByRole('tab', { name: 'Cost' }).click()
    await page.getByRole('cell', { name: 'payable, sandbox' }).waitFor()
    await page.getByRole('tab', { name: 'Bodies' }).click()
    await page.getByText('Predictions keep their input and output themselves.').waitFor()
    await page.getByRole('link', { name: 'See its files under Jobs' }).waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
