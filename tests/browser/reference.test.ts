import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { buildConsole, CAN_BROWSE, picture, useBrowser } from './browser.ts'

describe.skipIf(!CAN_BROWSE)('the API reference', () => {
  const { open } = useBrowser()
  let gateway: Gateway
  beforeAll(async () => {
    await buildConsole()
    gateway = await startGateway()
  }, 120_000)
  afterAll(() => gateway?.stop())

  test('shows the operations of this server under a strict policy, without a call of another host', async () => {
    const { page, faults } = await open(`${gateway.url}/console/reference`)
    await page.waitForSelector('#operations-Generations-post_v1_chat_completions')
    expect(await page.locator('.opblock').count()).toBeGreaterThan(80)
    await page.click('#operations-Generations-post_v1_chat_completions .opblock-summary-control')
    await page.waitForSelector('.opblock-body .responses-table')
    await picture(page, 'reference')
    expect(await page.locator('.opblock-body').textContent()).toContain('insufficient_credit')
    expect(faults).toEqual([])
  }, 120_000)
})
