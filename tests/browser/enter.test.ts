import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { firstLink, inviteFor as invite } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { CAN_BROWSE, picture, useBrowser } from './browser.ts'

const browser = useBrowser()
let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
}, 60_000)
afterAll(() => gateway.stop())

const console_ = (path = ''): string => `${gateway.url}/console${path}`
const enterWith = (link: string): string => console_(`/enter#${link}`)
const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name, level: 1 })

/** A link for a new user with these roles. */
const inviteFor = (name: string, role: 'viewer' | 'admin'): Promise<string> =>
  invite(gateway.data, { name, roles: [{ scope: 'installation', role }] })

describe.skipIf(!CAN_BROWSE)('entering the console', () => {
  test('the first link makes an owner, leaves the address, and does not open twice', async () => {
    const link = await firstLink(gateway.data)
    const { page, context, close, faults } = await browser.open(enterWith(link))
    await heading(page, 'Welcome to Sluice').waitFor()
    expect(page.url()).toBe(console_('/enter'))
    await picture(page, 'enter-first')
    await page.getByLabel('Your name').fill('Olivia Owner')
    await page.keyboard.press('Enter')
    await heading(page, 'Home').waitFor()
    expect(await context.cookies()).toMatchObject([{ httpOnly: true, sameSite: 'Strict' }])
    await page.goBack()
    expect(page.url()).not.toContain(link)
    expect(faults).toEqual([])
    await close()

    const again = await browser.open(enterWith(link))
    await heading(again.page, 'This link does not open anything').waitFor()
    await again.page.getByRole('alert').waitFor()
    await picture(again.page, 'enter-used')
    expect(again.faults).toEqual([])
    await again.close()
  }, 60_000)

  test('an invite asks for a name and a password, with which its person signs in again after leaving', async () => {
    const { page, context, close, faults } = await browser.open(enterWith(await inviteFor('Vera', 'viewer')))
    await heading(page, /You are invited|Welcome back/).waitFor()
    await picture(page, 'enter-invite')
    await page.getByRole('button', { name: /Join|Sign in/ }).click()
    await heading(page, 'Home').waitFor()
    await page.getByRole('button', { name: /own menu/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await heading(page, 'Sign in').waitFor()
    expect(await context.cookies()).toEqual([])
    await page.goto(console_('/keys'))
    await heading(page, 'Sign in').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)

  test('a session that ends within a form asks for a new one, and the form goes on', async () => {
    const { page, context, close, faults } = await browser.open(enterWith(await inviteFor('Adam', 'admin')))
    await page.getByRole('button', { name: /Join|Sign in/ }).click()
    await heading(page, 'Home').waitFor()
    await page.goto(console_('/keys?create=1'))
    await page.getByLabel('Name').fill('from a form')
    await context.clearCookies()
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
    await picture(page, 'enter-again')
    const other = await context.newPage()
    await other.goto(enterWith(await inviteFor('Adam again', 'admin')))
    await other.getByRole('button', { name: /Join|Sign in/ }).click()
    await heading(other, 'Home').waitFor()
    await page.getByRole('button', { name: 'continue' }).click()
    await page.getByText('I have copied it').waitFor()
    expect(faults).toEqual([])
    await close()
  }, 60_000)
})
