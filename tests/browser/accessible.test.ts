/** Rules of WCAG 2.2 AA on every page and dialog, in both schemes, on a desktop, on a phone and at 200 %. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { ownerOf } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, cutOffOn, DESKTOP, MOBILE, picture, signIn, useBrowser, violationsOn, ZOOMED } from './browser.ts'

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
  for (const model of ['sandbox/chat', 'sandbox/messages', 'sandbox/none']) {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await response.text()
    if (model === 'sandbox/chat') answered = response.headers.get('x-generation-id') ?? ''
  }
}, 60_000)
afterAll(() => gateway.stop())

/** Each place: its address, what shows that it is drawn, and the tab that is chosen. */
const PLACES: readonly (readonly [name: string, path: string, ready: string, tab?: string])[] = [
  ['home', '/', 'heading:Home'],
  ['keys', '/keys', 'heading:Keys'],
  ['keys, make', '/keys?make=1', 'dialog:Make a key'],
  ['keys, connect', '/keys?connect=1', 'dialog:Connect a client'],
  ['keys, sheet', '/keys/KEY', 'dialog:first'],
  ['accounts', '/accounts', 'heading:Accounts'],
  ['people', '/people', 'heading:People'],
  ['requests', '/requests', 'heading:Requests'],
  ['requests, none', '/requests?client=none', 'heading:Requests'],
  ['request', '/requests?request=ID', 'heading:sandbox/chat'],
  ['request, page', '/requests/ID', 'heading:sandbox/chat'],
  ['request, bodies', '/requests/ID', 'heading:sandbox/chat', 'Bodies'],
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

async function goTo(page: Page, path: string, ready: string, tab?: string): Promise<void> {
  const [role, name] = ready.split(':') as ['heading' | 'dialog', string]
  await page.goto(`${gateway.url}/console${path.replace('ID', answered).replace('KEY', keyId)}`)
  await page.getByRole(role, { name, exact: true }).waitFor()
  if (tab !== undefined) {
    await page.getByRole('tab', { name: tab }).click()
    await page.getByRole('heading', { name: 'We answered' }).waitFor()
  }
  await page.waitForFunction(`document.querySelector('[aria-busy=true]') === null`)
}

const VIEWS = [
  ['light', DESKTOP],
  ['dark', DESKTOP],
  ['light', MOBILE],
  ['dark', MOBILE],
  ['light', ZOOMED],
  ['dark', ZOOMED],
] as const

describe.skipIf(!CAN_BROWSE)('accessibility of the console', () => {
  test.each(VIEWS)(
    'no rule is broken in %s at %p',
    async (scheme, viewport) => {
      const { page, context } = await signIn(browser, gateway, {
        scheme,
        viewport,
        scale: viewport === ZOOMED ? 2 : 1,
        bypassCSP: true,
      })
      const found: string[] = []
      for (const [name, path, ready, tab] of PLACES) {
        await goTo(page, path, ready, tab)
        found.push(...(await violationsOn(page)).map((violation) => `${name}: ${violation}`))
        found.push(...(await cutOffOn(page)).map((text) => `${name}: ${text}`))
        const width = await page.evaluate('document.documentElement.scrollWidth')
        if (Number(width) > viewport.width) found.push(`${name}: ${width} px wide`)
        await picture(page, `all-${name.replace(', ', '-').replace(' ', '-')}-${scheme}-${viewport.width}`)
      }
      expect(found).toEqual([])
      await context.close()
    },
    240_000,
  )

  test('the pages before a session break no rule', async () => {
    const { page, context } = await browser.open(`${gateway.url}/console/enter`, { bypassCSP: true })
    await page.getByRole('heading', { name: 'Sign in', level: 1 }).waitFor()
    expect(await violationsOn(page)).toEqual([])
    await picture(page, 'all-enter')
    await context.close()
  }, 60_000)
})
