import { expect, setDefaultTimeout, test } from 'bun:test'
import { runWith, type Server } from '../../prove/servers.ts'
import { withSeveral } from '../../prove/several.ts'
import { Browser } from '../management/browser.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { until } from '../store/account-contract.ts'

runWith(program(), LATE_COMPILERS)

/** The management API at several processes over one PostgreSQL, which share nothing else. */

setDefaultTimeout(120_000)

/** The first owner at each process, with one session. */
async function ownersAt([first, ...others]: Server[]): Promise<Browser[]> {
  const { url } = JSON.parse(await first!.sluice('console', '--json')) as { url: string }
  const owner = new Browser(first!.url)
  expect((await owner.post('/session', { link: /[\w-]+$/.exec(url)![0], name: 'Owner' })).status).toBe(201)
  // The name of the cookie has the port, which is the same one behind a proxy.
  const cookieAt = ({ port }: Server): string => owner.cookie.replace(String(first!.port), String(port))
  return [owner, ...others.map((server) => Object.assign(new Browser(server.url), { cookie: cookieAt(server) }))]
}

const accountOf = async (owner: Browser): Promise<string> => {
  const { json } = await owner.get<{ data: { id: string }[] }>('/accounts')
  return `/accounts/${json.data[0]!.id}`
}

/** The version of something, once every process shows the same one. */
async function versionAt(owners: Browser[], path: string): Promise<string> {
  let versions: Set<string | null> = new Set()
  const isKnown = async (): Promise<boolean> => {
    versions = new Set(await Promise.all(owners.map(async (one) => (await one.get(path)).headers.get('etag'))))
    return versions.size === 1
  }
  expect([await until(isKnown), [...versions]]).toEqual([true, [expect.any(String)]])
  return [...versions][0]!
}

test('of changes of one version that race at two processes, exactly one is made', () =>
  withSeveral(
    2,
    () => '',
    async ({ servers }) => {
      const owners = await ownersAt(servers)
      for (const path of [await accountOf(owners[0]!), '/settings'])
        for (let round = 0; round < 8; round++) {
          const version = { 'if-match': await versionAt(owners, path) }
          const codes = await Promise.all(
            owners.map(async (one, index) => {
              const value = 1 + round * 2 + index
              const body = path === '/settings' ? { limits: { requestsPerMinute: 1000 + value } } : { discount: value }
              return (await one.ask('PATCH', path, body, version)).code
            }),
          )
          expect(codes.sort()).toEqual(['', 'conflict'])
        }
    },
  ))

test('a list that one process began goes on at another', () =>
  withSeveral(
    2,
    () => '',
    async ({ servers }) => {
      const owners = await ownersAt(servers)
      for (const name of ['one', 'two']) expect((await owners[0]!.post('/accounts', { name })).status).toBe(201)
      type Page = { data: { name: string }[]; next: string | null }
      const names: string[] = []
      for (let [page, cursor] = [0, '']; ; page++) {
        const { json } = await owners[page % 2]!.get<Page>(`/accounts?limit=1${cursor}`)
        names.push(...json.data.map(({ name }) => name))
        if (json.next === null) break
        cursor = `&cursor=${json.next}`
      }
      expect(names.sort()).toEqual(['default', 'one', 'two'])
    },
  ))
