/** Pages whose server is gone, answers with errors, or no longer has their scripts. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, MOBILE, picture, signIn, useBrowser, violationsOn } from './browser.ts'

/** The number of requests that a click on Retry makes before any timer of the page can make one. */
const REQUESTS_OF_RETRY = `(async () => {
  const { fetch } = window
  let requests = 0
  window.fetch = (...args) => {
    requests += 1
    return fetch(...args)
  }
  document.querySelector('.strip button.link').click()
  for (let i = 0; i < 100; i += 1) await undefined
  window.fetch = fetch
  return requests
})()`

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
}, 60_000)
afterAll(() => gateway.stop())

describe.skipIf(!CAN_BROWSE)('a page that cannot be read again', () => {
  test('it says since when, keeps what it had, and goes on when the server is back', async () => {
    const { page, close, faults } = await signIn(browser, gateway)
    await page.getByText('No requests in this range').waitFor()
    const strip = page.getByRole('status').filter({ hasText: 'The server does not answer.' })
    expect(await strip.count()).toBe(0)
    await page.route('**/v1/management/**', (route) => route.abort())
    await strip.filter({ hasText: /What is shown is as of \d\d:\d\d:\d\d\./ }).waitFor()
    await page.getByText('No requests in this range').waitFor()
    await picture(page, 'gone')
    // Pages also ask again by themselves, so the button is used while it cannot disappear.
    expect(await page.evaluate(REQUESTS_OF_RETRY)).toBeGreaterThan(0)
    await page.unroute('**/v1/management/**')
    await strip.waitFor({ state: 'detached' })
    expect(faults).toEqual([])
    await close()
  }, 90_000)

  test('a page whose first request fails shows an error', async () => {
    const { page, close } = await signIn(browser, gateway)
    await page.route('**/v1/management/usage*', (route) => route.abort())
    await page.goto(`${gateway.url}/console/usage`)
    await page.getByRole('status').filter({ hasText: 'The server does not answer. The page tries again.' }).waitFor()
    await close()
  }, 90_000)

  test('axe finds nothing in a page that waits for its answers', async () => {
    const { page, close } = await signIn(browser, gateway, { bypassCSP: true })
    await page.route('**/v1/management/keys*', () => {})
    await page.goto(`${gateway.url}/console/keys`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.getByRole('status', { name: 'Loading' }).first().waitFor()
    expect(await violationsOn(page)).toEqual([])
    await close()
  }, 90_000)

  test('a page whose script is loading has its title', async () => {
    const { page, close } = await signIn(browser, gateway)
    await page.route('**/assets/index-*.js', () => {})
    await page.getByRole('link', { name: 'Models', exact: true }).click()
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor()
    await page.getByRole('status', { name: 'Loading' }).waitFor()
    await close()
  }, 90_000)

  test('an error has its advice, and a button that fits on a phone', async () => {
    const { page, close } = await signIn(browser, gateway, { path: '/requests/none', viewport: MOBILE })
    const fault = page.getByRole('alert').filter({ hasText: 'No such request.' })
    await fault.getByText('It was deleted, is older than what is kept', { exact: false }).waitFor()
    const isWhole = `(() => {
      const { scrollWidth, clientWidth } = document.querySelector('.fault .mantine-Button-label')
      return scrollWidth <= clientWidth
    })()`
    expect(await page.evaluate(isWhole)).toBe(true)
    await picture(page, 'request-none-mobile')
    await close()
  }, 90_000)

  test('a script that is gone takes the place of its part alone', async () => {
    const { page, close } = await signIn(browser, gateway)
    await page.route('**/assets/time-chart-*.js', (route) => route.abort())
    await page.goto(`${gateway.url}/console`)
    await page.getByText('Load the page again', { exact: false }).waitFor()
    await page.getByRole('heading', { name: 'Running now' }).waitFor()
    await page.unroute('**/assets/time-chart-*.js')
    await page.getByRole('button', { name: 'Retry' }).click()
    await page.getByText('No requests in this range').waitFor()
    await close()
  }, 90_000)
})
