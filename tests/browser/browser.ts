/** A real browser for the tests of this folder, with the console that its sources give. */
import { afterAll, beforeAll, expect } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'
import { chromium as playwright } from 'playwright-core'
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core'
import { alone } from '../../console/build.ts'
import type { Role } from '../../src/accounts/roles.ts'
import { signedIn } from '../management/browser.ts'

const root = join(import.meta.dir, '../..')
/** The package's own arguments are for another place: they switch the web's security off. */
const ARGUMENTS = [
  ...['--no-sandbox', '--disable-gpu'],
  // Each page lives for seconds: optimizing compilers, and a thread for each job, cost more than they save.
  '--js-flags=--no-opt --no-maglev --single-threaded',
]
const START_MS = 120_000
/** A busy machine draws late. */
const WAIT_MS = 20_000

/** Kept for the next tests: it takes seconds to unpack, and the folder of temporary files may be in memory. */
const UNPACKED = join(root, 'node_modules/.cache/sluice/chromium')

export const DESKTOP = { width: 1440, height: 900 }
export const MOBILE = { width: 390, height: 844 }
/** The desktop at 200 %: half the CSS pixels, each drawn with twice as many. */
export const ZOOMED = { width: 720, height: 450 }

/** Without the packages of the console, or where Chromium lacks libraries, these tests are skipped. */
export const CAN_BROWSE = await canBrowse()

async function canBrowse(): Promise<boolean> {
  if (!existsSync(join(root, 'console/node_modules/react'))) return false
  try {
    return Bun.spawnSync([await chromiumPath(), '--version']).exitCode === 0
  } catch {
    return false
  }
}

/** The package unpacks its Chromium once. Test files run at the same time, so one does that alone. */
async function chromiumPath(): Promise<string> {
  mkdirSync(UNPACKED, { recursive: true })
  let path = ''
  await alone(join(UNPACKED, 'lock'), async () => {
    const { TMPDIR } = process.env
    process.env.TMPDIR = UNPACKED
    path = await chromium.executablePath()
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  })
  return path
}

/** Builds the console unless it is as its sources. */
export async function buildConsole(): Promise<void> {
  const build = Bun.spawn([process.execPath, '--no-install', join(root, 'console/build.ts')], { stderr: 'pipe' })
  expect(await new Response(build.stderr).text()).toBe('')
  expect(await build.exited).toBe(0)
}

export type View = {
  viewport?: { width: number; height: number }
  scheme?: 'light' | 'dark'
  /** For tools that inject scripts, such as axe. Violations are not found then. */
  bypassCSP?: boolean
  /** The cookie of a session. */
  cookie?: string
}

export type Opened = {
  page: Page
  context: BrowserContext
  /** Acts of the page that are forbidden: violations of its policy, errors, calls of other hosts. */
  faults: string[]
  /** Ends the use of the page. */
  close(): Promise<void>
}

export type BrowserTools = {
  /** A page that has neither cookies nor other pages beside it. */
  open(url: string, view?: View): Promise<Opened>
}

/** The browser of all files that this process tests. It ends with the process, whose end closes its pipe. */
let browser: Browser | undefined

/** Starts the browser before the tests of a file; each test's faults fail it at the end. */
export function useBrowser(): BrowserTools {
  beforeAll(async () => {
    if (!CAN_BROWSE) return
    await buildConsole()
    if (browser?.isConnected() !== true)
      browser = await playwright.launch({ executablePath: await chromiumPath(), args: ARGUMENTS })
  }, START_MS)
  afterAll(async () => {
    left.length = 0
    for (const context of browser?.contexts() ?? []) await context.close()
  })
  return {
    async open(url, { viewport = DESKTOP, scheme = 'light', bypassCSP = false, cookie = '' } = {}) {
      const { origin } = new URL(url)
      const index = left.findIndex((one) => one.origin === origin && one.bypassCSP === bypassCSP)
      const used = index < 0 ? await newPage(origin, bypassCSP) : left.splice(index, 1)[0]!
      const { page, context, faults } = used
      faults.length = 0
      await page.setViewportSize(viewport)
      await page.emulateMedia({ colorScheme: scheme })
      const [, name, value] = /^(.*?)=(.*)$/.exec(cookie) ?? []
      if (name !== undefined && value !== undefined)
        await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: 'Strict' }])
      await page.goto(url)
      return { page, context, faults, close: () => leave(used) }
    },
  }
}

type Reusable = { origin: string; bypassCSP: boolean; page: Page; context: BrowserContext; faults: string[] }

/**
 * Pages that tests have left. The next test goes on in one of them, because a new context has a new process, which
 * compiles all scripts again: that takes twice the CPU of a load.
 */
const left: Reusable[] = []

async function newPage(origin: string, bypassCSP: boolean): Promise<Reusable> {
  const fixed = { timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce' } as const
  const context = await browser!.newContext({ ...fixed, viewport: DESKTOP, bypassCSP })
  context.setDefaultTimeout(WAIT_MS)
  const page = await context.newPage()
  const faults: string[] = []
  watch(page, origin, faults)
  return { origin, bypassCSP, page, context, faults }
}

/** A path without a page. The browser keeps the process for one of the same server; it would not for `about:blank`. */
const EMPTY = '/console/assets/none'

/** Leaves nothing of a test that its next one could see. The page stops asking its server. */
async function leave(used: Reusable): Promise<void> {
  const { origin, page, context } = used
  for (const other of context.pages()) if (other !== page) await other.close()
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  await page.evaluate('localStorage.clear(), sessionStorage.clear()')
  await page.goto(`${origin}${EMPTY}`)
  await page.mouse.move(0, 0)
  await context.clearCookies()
  await context.clearPermissions()
  left.push(used)
}

let owners = 0

/**
 * A page on which a new owner of the installation is signed in. It shows Home, or is still loading `path` of the
 * console. The page of a sign-in link is left out, because each page takes as long as a test (enter.test.ts).
 */
export async function signIn(
  browser: BrowserTools,
  gateway: { url: string; data: string },
  { path = '/', ...view }: View & { path?: string } = {},
): Promise<Opened> {
  owners += 1
  const roles: Role[] = [{ scope: 'installation', role: 'owner' }]
  const { cookie } = await signedIn(gateway, `Owner ${owners}`, roles)
  const opened = await browser.open(`${gateway.url}/console${path}`, { ...view, cookie })
  if (path === '/') await opened.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
  return opened
}

function watch(page: Page, origin: string, faults: string[]): void {
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content.Security.Policy|Trusted|violates|Refused to/i.test(message.text()))
      faults.push(`policy: ${message.text()}`)
  })
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${origin}/`) && !/^(?:data|blob|about):/.test(url)) faults.push(`outside: ${url}`)
  })
}

/** Waits until an expression is true. The policy of a page forbids the way in which waitForFunction looks again. */
export async function waitUntil(page: Page, expression: string): Promise<void> {
  for (const end = Date.now() + WAIT_MS; (await page.evaluate(expression)) !== true; await Bun.sleep(20))
    if (Date.now() > end) throw new Error(`it is not so after ${WAIT_MS} ms: ${expression}`)
}

const HAS_PICTURES = process.env.SLUICE_PICTURES === '1'

/** With `SLUICE_PICTURES=1`, writes a picture of the page to `tests/browser/seen/`, to be looked at. */
export async function picture(page: Page, name: string): Promise<void> {
  if (HAS_PICTURES) await page.screenshot({ path: pictureFile(name) })
}

/** The same where `screen` has set the size of the page, which `Page.screenshot` would set back. */
export async function pictureOf(screen: CDPSession, name: string): Promise<void> {
  if (!HAS_PICTURES) return
  const { data } = await screen.send('Page.captureScreenshot', { format: 'png' })
  writeFileSync(pictureFile(name), Buffer.from(data, 'base64'))
}

function pictureFile(name: string): string {
  const folder = join(import.meta.dir, 'seen')
  mkdirSync(folder, { recursive: true })
  return join(folder, `${name}.png`)
}

const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
/** The rules that are checked: all, or those that depend on colours. */
const RULES = {
  all: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  ofColours: ['color-contrast', 'link-in-text-block'],
} as const

/** Only violations are described in full; each other rule has one element. */
const runAxe = (rules: keyof typeof RULES): string => `axe
  .run(document, { runOnly: ${JSON.stringify(RULES[rules])}, resultTypes: ['violations'] })
  .then(({ violations }) => violations)`

type Violation = { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }

/** Rules of accessibility that the page breaks. Its context bypasses the policy, which forbids scripts of others. */
export async function violationsOn(page: Page, rules: keyof typeof RULES = 'all'): Promise<string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(AXE)
  const found = (await page.evaluate(runAxe(rules))) as Violation[]
  return found.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`,
  )
}

/**
 * Texts that cannot be seen: beyond the page, or cut by an element that neither scrolls nor shows that there is more.
 * Its context bypasses the policy.
 */
export const cutOffOn = async (page: Page): Promise<string[]> => (await page.evaluate(CUT_OFF)) as string[]

const CUT_OFF = `[...document.querySelectorAll('body *')].flatMap((element) => {
  const texts = [...element.childNodes].filter((node) => node.nodeType === 3 && node.textContent.trim() !== '')
  if (texts.length === 0 || !element.checkVisibility({ visibilityProperty: true })) return []
  const range = document.createRange()
  range.selectNodeContents(element)
  const text = range.getBoundingClientRect()
  if (text.width <= 1 || text.height <= 1) return []
  for (let around = element; around !== null && around !== document.body; around = around.parentElement) {
    const { overflowX, overflowY, textOverflow, position, clipPath } = getComputedStyle(around)
    const box = around.getBoundingClientRect()
    if (clipPath !== 'none' || (position === 'absolute' && box.width <= 1)) return []
    if (/auto|scroll/.test(overflowX + overflowY)) return []
    if (textOverflow === 'ellipsis' || getComputedStyle(around).webkitLineClamp !== 'none') return []
    const isWide = overflowX !== 'visible' && (text.right > box.right + 1 || text.left < box.left - 1)
    const isHigh = overflowY !== 'visible' && (text.bottom > box.bottom + 1 || text.top < box.top - 1)
    if (isWide || isHigh) return ['cut: ' + element.textContent.trim().slice(0, 60)]
    if (position === 'fixed') break
  }
  const isBeyond = text.left < -1 || text.right > innerWidth + 1
  // The link that skips the navigation comes into the page when it has the focus.
  return isBeyond && !element.matches('.skip') ? ['beyond: ' + element.textContent.trim().slice(0, 60)] : []
})`
