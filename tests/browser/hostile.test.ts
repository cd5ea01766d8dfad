/** Texts of clients, models and providers that try to be more than text. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
}, 60_000)
afterAll(() => gateway.stop())

const PAYLOADS = [
  '<img src=https://evil.example/a.png onerror=window.hacked=1>',
  '"><script>window.hacked=1</script>',
  '<svg/onload=window.hacked=1>',
  'javascript:window.hacked=1',
  '![x](https://evil.example/b.png) [y](javascript:window.hacked=1)',
  '{{constructor.constructor("window.hacked=1")()}}',
  'user\u202egnp.exe\u0007\u200b',
]

const COLUMNS = 'columns=time,model,provider,account,key,client,api,outcome,finish'

async function send(payload: string): Promise<void> {
  for (const [model, prompt] of [
    ['sandbox/chat', `[[reply: ${payload.replaceAll(']', ')')}]]`],
    ['sandbox/chat', `[[error: 500 ${payload.replaceAll(']', ')')}]]`],
    [`missing/${payload}`, payload],
  ])
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${gateway.key}`,
        'content-type': 'application/json',
        'user-agent': payload.replace(/[^\x20-\x7e]/g, ''),
      },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: prompt }] }),
    }).then((response) => response.text())
}

describe.skipIf(!CAN_BROWSE)('hostile texts', () => {
  test('they are text on every page: no script runs, nothing outside is called, no policy is violated', async () => {
    for (const payload of PAYLOADS) await send(payload)
    const { page, close, faults } = await signIn(browser, gateway, { path: `/requests?${COLUMNS}` })
    const isUntouched = async (): Promise<void> =>
      expect(await page.evaluate('[typeof window.hacked, document.scripts.length]')).toEqual(['undefined', scripts])
    await page.locator('.request-line').nth(5).waitFor()
    const scripts = await page.evaluate<number>('document.scripts.length')
    await isUntouched()
    for (let index = 0; index < PAYLOADS.length * 3; index++) {
      await page.keyboard.press('j')
      if (index === 0) await page.keyboard.press('Enter')
      else await page.keyboard.press(']')
      await page.locator('.sheet .verdict').waitFor()
    }
    await page.getByRole('tab', { name: 'Raw' }).click()
    await page.locator('.sheet .json-line').first().waitFor()
    await isUntouched()
    for (const path of ['usage?by=model', 'usage?by=code&then=model&metric=failed', 'usage?by=outcome']) {
      await page.goto(`${gateway.url}/console/${path}`)
      await page.getByRole('table').first().waitFor()
      await isUntouched()
    }
    const query = PAYLOADS.map((payload) => `model=${encodeURIComponent(payload)}`).join('&')
    await page.goto(`${gateway.url}/console/requests?${query}&q=${encodeURIComponent(PAYLOADS[0]!)}`)
    await page.getByRole('button', { name: /Remove the filter model/ }).waitFor()
    await isUntouched()
    await page.goto(`${gateway.url}/console/requests/${encodeURIComponent(PAYLOADS[1]!)}`)
    await page.getByRole('alert').waitFor()
    await isUntouched()
    expect(faults).toEqual([])
    await close()
  }, 120_000)
})
