import { exactUsd, headUsd, listUsd, type Usd } from './money.ts'

/** An amount with all its decimals as its title; `-` with the reason where there is none. */
export function Money({
  usd,
  as = 'list',
  why = 'No cost is known.',
}: {
  usd: Usd
  as?: 'list' | 'head'
  why?: string
}) {
  return (
    <span className={usd === null ? 'number dim' : 'number'} title={usd === null ? why : exactUsd(usd)}>
      {as === 'head' ? headUsd(usd) : listUsd(usd)}
    </span>
  )
}
