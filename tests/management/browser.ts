import { openPeople, type People } from '../../src/accounts/people.ts'
import type { Role } from '../../src/accounts/roles.ts'
import type { NewUser } from '../../src/accounts/users.ts'
import { added, linkFor } from '../accounts/people-fixture.ts'
import { storeIn } from '../stores.ts'

type Json = Record<string, unknown>

/** `code`: of the error. */
export type Got<T = Json> = { status: number; headers: Headers; text: string; json: T; code: string }

/** A browser as the console's page uses one: with a cookie, and the headers of requests to the page's own origin. */
export class Browser {
  readonly url: string
  cookie = ''

  constructor(url: string) {
    this.url = url
  }

  /** `headers`: further ones, or null for one that is left out. */
  async ask<T = Json>(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string | null> = {},
  ): Promise<Got<T>> {
    const all: Record<string, string | null> = {
      'sec-fetch-site': 'same-origin',
      'x-sluice-console': '1',
      ...(this.cookie === '' ? {} : { cookie: this.cookie }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    }
    const response = await fetch(`${this.url}/v1/management${path}`, {
      method,
      headers: Object.fromEntries(Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== null)),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const set = response.headers.get('set-cookie')
    if (set !== null) this.cookie = set.includes('Max-Age=0') ? '' : (set.split(';')[0] ?? '')
    // A stream has no end; tables and files are no JSON.
    const isJson = !/^(?:text\/(?:csv|event-stream)|application\/(?:jsonl|yaml))/.test(
      response.headers.get('content-type') ?? '',
    )
    if (!isJson) await response.body?.cancel()
    const text = isJson ? await response.text() : ''
    const json = (text === '' ? {} : JSON.parse(text)) as T & { error?: { code?: string } }
    return { status: response.status, headers: response.headers, text, json, code: json.error?.code ?? '' }
  }

  get = <T = Json>(path: string) => this.ask<T>('GET', path)
  post = <T = Json>(path: string, body: object) => this.ask<T>('POST', path, body)

  /** The body of something that is not JSON. */
  async text(path: string): Promise<string> {
    const headers = { 'sec-fetch-site': 'same-origin', 'x-sluice-console': '1', cookie: this.cookie }
    return (await fetch(`${this.url}/v1/management${path}`, { headers })).text()
  }

  /** Changes something that was just read. */
  async change<T = Json>(method: string, path: string, body?: object): Promise<Got<T>> {
    const { headers } = await this.get(path)
    return this.ask<T>(method, path, body, { 'if-match': headers.get('etag') ?? '*' })
  }
}

/** Acts on a data folder as the command line does, beside the server that runs on it. */
export async function beside<T>(folder: string, act: (people: People) => Promise<T>): Promise<T> {
  const store = await storeIn(folder)
  try {
    return await act(openPeople(store, Date.now))
  } finally {
    await store.close()
  }
}

/** The text of a link for the first owner. */
export const firstLink = (folder: string): Promise<string> => beside(folder, (people) => linkFor(people))

/** The text of an invite for a new user. */
export const inviteFor = (folder: string, person: NewUser & { roles: Role[] }): Promise<string> =>
  beside(folder, async (people) => linkFor(people, await added(people, person)))

/** A browser in which the first owner is signed in. */
export async function ownerOf({ url, data }: { url: string; data: string }): Promise<Browser> {
  const browser = new Browser(url)
  const { status } = await browser.post('/session', { link: await firstLink(data), name: 'Owner' })
  if (status !== 201) throw new Error(`the owner is not signed in: ${status}`)
  return browser
}

/** A browser in which a new user with these roles is signed in. */
export async function signedIn(
  { url, data }: { url: string; data: string },
  name: string,
  roles: Role[],
): Promise<Browser> {
  const link = await inviteFor(data, { name, roles })
  const browser = new Browser(url)
  const { status } = await browser.post('/session', { link, name })
  if (status !== 201) throw new Error(`${name} is not signed in: ${status}`)
  return browser
}
