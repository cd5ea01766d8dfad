/** Account and range of the bar: in the URL of every page, and carried on by links. */
import type { AnchorHTMLAttributes } from 'react'
import { Link, useSearchParams } from 'wouter'

export const RANGES = ['1h', '24h', '7d', '30d'] as const
export type Range = (typeof RANGES)[number]

const HOURS: Record<Range, number> = { '1h': 1, '24h': 24, '7d': 168, '30d': 720 }
const CARRIED = ['account', 'range'] as const

export type Scope = {
  /** The chosen account's id; undefined: all that the user may see. */
  account: string | undefined
  range: Range
  /** `from` of a question: `-24h`. */
  from: string
  setAccount(account: string | undefined): void
  setRange(range: Range): void
  /** `path` with the scope: for links. */
  to(path: string): string
}

export function useScope(): Scope {
  const [params, setParams] = useSearchParams()
  const given = params.get('range')
  const range = RANGES.find((one) => one === given) ?? '24h'
  const set = (name: string, value: string | undefined): void =>
    setParams((before) => {
      const next = new URLSearchParams(before)
      if (value === undefined) next.delete(name)
      else next.set(name, value)
      return next
    })
  return {
    account: params.get('account') ?? undefined,
    range,
    from: `-${HOURS[range]}h`,
    setAccount: (account) => set('account', account),
    setRange: (next) => set('range', next === '24h' ? undefined : next),
    to: (path) => withScope(path, params),
  }
}

function withScope(path: string, params: URLSearchParams): string {
  const [before = '', query = ''] = path.split('?')
  const next = new URLSearchParams(query)
  for (const name of CARRIED) {
    const value = params.get(name)
    if (value !== null && !next.has(name)) next.set(name, value)
  }
  const text = next.toString()
  return text === '' ? before : `${before}?${text}`
}

type Props = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> & { path: string }

/** A link to a page of the console, which keeps account and range. */
export function To({ path, ...rest }: Props) {
  const { to } = useScope()
  return <Link href={to(path)} {...rest} />
}
