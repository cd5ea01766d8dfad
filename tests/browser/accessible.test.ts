/** Rules of WCAG 2.2 AA on every page and dialog, in both schemes, on a desktop and on a phone. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, DESKTOP, MOBILE, picture, signIn, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
/** The id of a request that was answered. */
let answered = ''
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

beforeAll(async () => {
  gateway = await startGateway()
  if (!CAN_BROWSE) return
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

type Violation = { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }

async function violationsOn(page: Page): Promise<string[]> {
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then(({ violations }) => violations)`,
  )) as Violation[]
  return found.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`,
  )
}

/** Each place: its address, and what shows that it is drawn. */
const PLACES: readonly (readonly [name: string, path: string, ready: string])[] = [
  ['home', '/', 'heading:Home'],
  ['keys', '/keys', 'heading:Keys'],
  ['keys, make', '/keys?make=1', 'dialog:Make a key'],
  ['keys, connect', '/keys?connect=1', 'dialog:Connect a client'],
  ['accounts', '/accounts', 'heading:Accounts'],
  ['people', '/people', 'heading:People'],
  ['requests', '/requests', 'heading:Requests'],
  ['requests, none', '/requests?client=none', 'heading:Requests'],
  ['request', '/requests?request=ID', 'heading:sandbox/chat'],
  ['request, page', '/requests/ID', 'heading:sandbox/chat'],
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

async function goTo(page: Page, path: string, ready: string): Promise<void> {
  const [role, name] = ready.split(':') as ['heading' | 'dialog', string]
  await page.goto(`${gateway.url}/console${path.replace('ID', answered)}`)
  await page.getByRole(role, { name, exact: true }).waitFor()
  await page.waitForFunction(`document.querySelector('[aria-busy=true]') === null`)
}

const VIEWS = [
  ['light', DESKTOP],
  ['dark', DESKTOP],
  ['light', MOBILE],
  ['dark', MOBILE],
] as const

describe.skipIf(!CAN_BROWSE)('accessibility of the console', () => {
  test.each(VIEWS)(
    'no rule is broken in %s at %p',
    async (scheme, viewport) => {
      const { page, context } = await signIn(browser, gateway, { scheme, viewport, bypassCSP: true })
      const found: string[] = []
      for (const [name, path, ready] of PLACES) {
        await goTo(page, path, ready)
        await page.evaluate(axe)
        found.push(...(await violationsOn(page)).map((violation) => `${name}: ${violation}`))
        const width = await page.evaluate('document.documentElement.scrollWidth')
        if (Number(width) > viewport.width) found.push(`${name}: ${width} px wide`)
        await picture(page, `all-${name.replace(', ', '-').replace(' ', '-')}-${scheme}-${viewport.width}`)
      }
      expect(found).toEqual([])
      await context.close()
    },
    120_000,
  )

  test('the pages before a session break no rule', async () => {
    const { page, context } = await browser.open(`${gateway.url}/console/enter`, { bypassCSP: true })
    await page.getByRole('heading', { name: 'Sign in', level: 1 }).waitFor()
    await page.evaluate(axe)
    expect(await violationsOn(page)).toEqual([])
    await picture(page, 'all-enter')
    await context.close()
  }, 60_000)
})
