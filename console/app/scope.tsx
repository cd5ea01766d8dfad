/** Account and range of the bar: in the URL of every page, and carried on by links. */
import { type AnchorHTMLAttributes, useMemo } from 'react'
import { Link, useSearchParams } from 'wouter'
import { presetOf, readRange, writeRange, type Range } from '../parts/range.ts'

const CARRIED = ['account', 'from', 'to'] as const

export type Scope = {
  /** The chosen account's id; undefined: all that the user may see. */
  account: string | undefined
  /** As in questions: `from: '-24h'`, and `to` where it does not end now. */
  range: Range
  /** `24h` and the like; undefined for a range of the user's own. */
  preset: string | undefined
  setAccount(account: string | undefined): void
  setRange(range: Range): void
  /** `path` with the scope: for links. */
  to(path: string): string
}

export function useScope(): Scope {
  const [params, setParams] = useSearchParams()
  const from = params.get('from')
  const until = params.get('to')
  const range = useMemo(() => readRange(params), [from, until])
  return {
    account: params.get('account') ?? undefined,
    range,
    preset: presetOf(range),
    setAccount: (account) =>
      setParams((before) => {
        const next = new URLSearchParams(before)
        if (account === undefined) next.delete('account')
        else next.set('account', account)
        return next
      }),
    setRange: (next) => setParams((before) => writeRange(before, next)),
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
