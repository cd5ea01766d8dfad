import { isMap } from 'yaml'
import { DURABILITIES } from './terms.ts'
import { duration, located, name, number, object, type Shape, shareOrSize, size, string } from './shape.ts'

const SCHEMES = ['postgres', 'postgresql']
const EXAMPLE = 'postgres://user:password@host/database'

/** Returns what is wrong with the URL of a database, without a part of it, or undefined. */
export const urlProblem = (text: string): string | undefined => {
  const [, scheme] = /^([a-z][a-z0-9+.-]{0,19}):\/\//i.exec(text) ?? []
  if (scheme !== undefined && !SCHEMES.includes(scheme.toLowerCase()))
    return `has the scheme ${scheme}, and must be ${EXAMPLE}; without a URL, Sluice stores in data`
  const url = URL.parse(text)
  if (url === null || scheme === undefined || url.hash !== '' || (url.host === '' && !url.searchParams.has('host')))
    return `must be a URL such as ${EXAMPLE}; characters such as # / @ in a password are percent-encoded`
  return url.pathname.length > 1 ? undefined : `must name a database: ${EXAMPLE}`
}

/** The URL of a database without its password and parameters, for people. */
export function shownUrl(url: string): string {
  const { protocol, username, host, pathname } = new URL(url)
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}`
}

const url = string({
  what: `a URL such as ${EXAMPLE}`,
  description: `PostgreSQL database of many processes: ${EXAMPLE}; default: SQLite in data`,
  check: urlProblem,
})

/** Settings that apply to PostgreSQL alone. */
const ofPostgres = {
  connections: located(
    number({ min: 3, max: 1_000, whole: true, description: 'PostgreSQL: maximum connections of this process' }),
  ),
  patience: located(
    duration('0s', '10m', 'PostgreSQL: how long what ends waits for a database that is away, before it fails'),
  ),
  deadAfter: located(
    duration('2s', '10m', 'PostgreSQL: time without a report after which other processes take over from this one'),
  ),
}

/** Settings that apply to SQLite alone. */
const ofSqlite = {
  durability: located(
    name(
      DURABILITIES,
      'SQLite: the failure that generations survive once they are answered: power (a power cut) or process (kill -9)',
    ),
  ),
  reserve: located(
    shareOrSize(
      '1PiB',
      'SQLite: free disk space for records and deletions, as a percentage of the disk or a size; 0B: none',
    ),
  ),
}

const members = object(
  {
    url,
    ...ofPostgres,
    ...ofSqlite,
    quota: size('1KiB', '1PiB', 'Total size of everything that is kept for all accounts'),
    quotaWithoutCredit: size(
      '0B',
      '1PiB',
      'Total size of the files of one account without credit, and of what requests to free models keep for it',
    ),
  },
  { description: 'The database: its settings, or the URL alone' },
)

type StoreSettings = typeof members extends Shape<infer T> ? T : never

/** A mapping of settings, or the URL alone. */
export const store: Shape<StoreSettings> = {
  schema: { ...members.schema, type: ['object', 'null', 'string'] },
  read(location) {
    if (typeof location.scalar === 'string') {
      const value = url.read(location)
      return value === undefined ? undefined : { url: value }
    }
    const read = members.read(location)
    if (read === undefined) return undefined
    if (read.url !== undefined)
      for (const name of Object.keys(ofSqlite) as (keyof typeof ofSqlite)[])
        read[name]?.location.fail('applies to SQLite, not to the PostgreSQL of store.url: remove it')
    else if (!isMap(location.node) || !location.node.has('url'))
      for (const name of Object.keys(ofPostgres) as (keyof typeof ofPostgres)[])
        read[name]?.location.fail(`applies to PostgreSQL and requires store.url: ${EXAMPLE}`)
    return read
  },
}
