/** Rules of WCAG 2.2 AA on every page and dialog, in both schemes, on a desktop, on a phone and at 200 %. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { CDPSession, Page } from 'playwright-core'
import { ownerOf } from '../management/browser.ts'
import { IS_LONG } from '../runs.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, cutOffOn, DESKTOP, MOBILE, picture, pictureOf } from './browser.ts'
import { signIn, useBrowser, violationsOn, ZOOMED } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
/** The id of a request that was answered, and of its key. */
let answered = ''
let keyId = ''

beforeAll(async () => {
  gateway = await startGateway({ config: 'capture: { most: all }\n' })
  if (!CAN_BROWSE) return
  const owner = await ownerOf(gateway)
  const { json } = await owner.get<{ data: { id: string; kind: string }[] }>('/keys')
  keyId = json.data.find(({ kind }) => kind === 'pay-as-you-go')!.id
  await owner.change('PATCH', '/accounts/default', { capture: { mode: 'all', until: null } })
  const send = async (path: string, body: object): Promise<Headers> => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    await response.text()
    return response.headers
  }
  for (const model of ['sandbox/chat', 'sandbox/messages', 'sandbox/none']) {
    const headers = await send('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello' }] })
    if (model === 'sandbox/chat') answered = headers.get('x-generation-id') ?? ''
  }
  // A job that goes on during all tests, and one that fails.
  await send('/v1/predictions', { model: 'sandbox/prediction', input: { prompt: 'x', duration: 600, logs: 1000 } })
  await send('/v1/predictions', { model: 'sandbox/chat', input: { prompt: '[[error: 500]]' } })
}, 60_000)
afterAll(() => gateway.stop())

/** Each place: its address, what shows that it is drawn, and the tab that is chosen. */
const PLACES: readonly (readonly [name: string, path: string, ready: string, tab?: string])[] = [
  ['home', '/', 'heading:Home'],
  ['keys', '/keys', 'heading:Keys'],
  ['keys, create', '/keys?create=1', 'dialog:Create a key'],
  ['keys, connect', '/keys?connect=1', 'dialog:Connect a client'],
  ['keys, sheet', '/keys/KEY', 'dialog:first'],
  ['accounts', '/accounts', 'heading:Accounts'],
  ['people', '/people', 'heading:People'],
  ['requests', '/requests', 'heading:Requests'],
  ['requests, none', '/requests?client=none', 'heading:Requests'],
  ['request', '/requests?request=ID', 'heading:sandbox/chat'],
  ['request, page', '/requests/ID', 'heading:sandbox/chat'],
  ['request, bodies', '/requests/ID', 'heading:sandbox/chat', 'Bodies'],
  ['jobs', '/jobs', 'heading:Jobs'],
  ['usage', '/usage?metric=requests', 'heading:Usage'],
  ['usage, lines', '/usage?metric=cache&by=key&then=model', 'heading:Usage'],
  ['playground', '/playground', 'heading:Playground'],
  ['book', '/book', 'heading:Book'],
  ['change log', '/people?show=changes', 'heading:People'],
  ['models', '/models', 'heading:Models'],
  ['providers', '/providers', 'heading:Providers'],
  ['plans', '/plans', 'heading:Plans'],
  ['settings', '/settings', 'heading:Settings'],
]

/** Goes on as a link does: loading the console again would take longer than the checks. */
async function goTo(page: Page, path: string, ready: string, tab?: string): Promise<void> {
  const [role, name] = ready.split(':') as ['heading' | 'dialog', string]
  const address = `/console${path.replace('ID', answered).replace('KEY', keyId)}`
  await page.evaluate(`history.pushState(null, '', '${address}')`)
  await page.getByRole(role, { name, exact: true }).waitFor()
  if (tab !== undefined) {
    await page.getByRole('tab', { name: tab }).click()
    await page.getByRole('heading', { name: 'We answered' }).waitFor()
  }
  await page.waitForFunction(`document.querySelector('[aria-busy=true]') === null`)
}

type Look = { scheme: 'light' | 'dark'; view: View }
type View = { width: number; height: number; scale: number }

const VIEWS: readonly View[] = [DESKTOP, MOBILE, ZOOMED].map((size) => ({ ...size, scale: size === ZOOMED ? 2 : 1 }))
/**
 * The looks of the page at this index, in the order in which they are tried. Each width and each scheme is among them;
 * long runs have all pairs. The first one differs from page to page.
 */
function looksOf(index: number): Look[] {
  const views = [...VIEWS.slice(index % VIEWS.length), ...VIEWS.slice(0, index % VIEWS.length)]
  return views.flatMap((view, at) => {
    const schemes = (index + at) % 2 === 0 ? (['light', 'dark'] as const) : (['dark', 'light'] as const)
    return schemes.slice(0, IS_LONG ? 2 : 1).map((scheme) => ({ scheme, view }))
  })
}

/** Waits until the page is drawn in this look, as when the system changes it. */
async function changeTo(page: Page, screen: CDPSession, { scheme, view }: Look): Promise<void> {
  const { width, height, scale } = view
  await screen.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: scale, mobile: false })
  await page.emulateMedia({ colorScheme: scheme })
  await page.waitForFunction(
    `innerWidth === ${width} && document.documentElement.dataset.mantineColorScheme === '${scheme}'`,
  )
  // Components follow the width after a frame of it.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
  await page.waitForFunction(`document.querySelector('[aria-busy=true]') === null`)
}

/** Moves the pointer to the first row of a table, whose background it changes. */
async function pointAtRow(page: Page): Promise<void> {
  const box = await page
    .locator('tbody tr')
    .first()
    .boundingBox({ timeout: 1 })
    .catch(() => null)
  if (box !== null) await page.mouse.move(box.x + 5, box.y + 5)
}

describe.skipIf(!CAN_BROWSE)('accessibility of the console', () => {
  let page: Page
  let screen: CDPSession
  beforeAll(async () => {
    const opened = await signIn(browser, gateway, { bypassCSP: true })
    page = opened.page
    screen = await opened.context.newCDPSession(page)
  }, 60_000)

  // The scheme changes colours alone, so the other rules are checked once at each width.
  test.each(PLACES.map((place, index) => [place[0], place, index] as const))(
    '%s breaks no rule in any look',
    async (name, [, path, ready, tab], index) => {
      const looks = looksOf(index)
      const found: string[] = []
      await changeTo(page, screen, looks[0]!)
      await goTo(page, path, ready, tab)
      for (const look of looks) {
        const { scheme, view } = look
        await changeTo(page, screen, look)
        await pointAtRow(page)
        const where = `${scheme}, ${view.width} px`
        const rules = look === looks.find((other) => other.view === view) ? 'all' : 'ofColours'
        found.push(...(await violationsOn(page, rules)).map((violation) => `${where}: ${violation}`))
        found.push(...(await cutOffOn(page)).map((text) => `${where}: ${text}`))
        const width = await page.evaluate('document.documentElement.scrollWidth')
        if (Number(width) > view.width) found.push(`${where}: ${width} px wide`)
        await pictureOf(screen, `all-${name.replace(', ', '-').replace(' ', '-')}-${scheme}-${view.width}`)
      }
      expect(found).toEqual([])
    },
    60_000,
  )

  test('the pages before a session break no rule', async () => {
    const { page, close } = await browser.open(`${gateway.url}/console/enter`, { bypassCSP: true })
    await page.getByRole('heading', { name: 'Sign in', level: 1 }).waitFor()
    expect(await violationsOn(page)).toEqual([])
    await picture(page, 'all-enter')
    await close()
  }, 60_000)
})
