/** A real browser for the tests of this folder: one for each file, with the console that its sources give. */
import { afterAll, beforeAll, expect } from 'bun:test'
import { existsSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import chromium from '@sparticuz/chromium'
import { chromium as playwright, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { alone } from '../../console/build.ts'
import { beside } from '../management/browser.ts'

const root = join(import.meta.dir, '../..')
/** The package's own arguments are for another place: they switch the web's security off. */
const ARGUMENTS = ['--no-sandbox', '--disable-gpu']
const START_MS = 120_000
/** A busy machine draws late. */
const WAIT_MS = 20_000

export const DESKTOP = { width: 1440, height: 900 }
export const MOBILE = { width: 390, height: 844 }

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
  let path = ''
  await alone(join(tmpdir(), 'sluice-chromium.lock'), async () => {
    path = await chromium.executablePath()
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
  timezoneId?: string
  /** For tools that inject scripts, such as axe. Violations are not found then. */
  bypassCSP?: boolean
}

export type Opened = {
  page: Page
  context: BrowserContext
  /** What the page did that it must not: violations of its policy, errors, calls of other hosts. */
  faults: string[]
}

export type BrowserTools = {
  /** A page of a context of its own, without cookies. */
  open(url: string, view?: View): Promise<Opened>
}

/** Starts one browser before the tests of a file, and ends it after them; each test's faults fail it at the end. */
export function useBrowser(): BrowserTools {
  let browser: Browser | undefined
  beforeAll(async () => {
    if (!CAN_BROWSE) return
    await buildConsole()
    browser = await playwright.launch({ executablePath: await chromiumPath(), args: ARGUMENTS })
  }, START_MS)
  afterAll(async () => browser?.close())
  return {
    async open(url, { viewport = DESKTOP, scheme = 'light', timezoneId = 'Europe/Berlin', bypassCSP = false } = {}) {
      const options = { viewport, colorScheme: scheme, locale: 'en-GB', timezoneId, bypassCSP } as const
      const context = await browser!.newContext({ ...options, reducedMotion: 'reduce' })
      context.setDefaultTimeout(WAIT_MS)
      const page = await context.newPage()
      const faults: string[] = []
      watch(page, new URL(url).origin, faults)
      await page.goto(url)
      return { page, context, faults }
    },
  }
}

/** A page on which the installation's owner, or another one, is signed in; it shows Home. */
export async function signIn(
  browser: BrowserTools,
  gateway: { url: string; data: string },
  view?: View,
): Promise<Opened> {
  const link = await beside(gateway.data, async ({ users, signIn: links }) => {
    const name = `Owner ${(await users.list()).length + 1}`
    return links.newLink(await users.add({ name, roles: [{ scope: 'installation', role: 'owner' }] }))
  })
  const opened = await browser.open(`${gateway.url}/console/enter#${link.text}`, view)
  await opened.page.getByRole('button', { name: /^(?:Join|Sign in)$/ }).click()
  await opened.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
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

/** Writes a picture of the page to `tests/browser/seen/`, to be looked at. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = join(import.meta.dir, 'seen')
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`) })
}
