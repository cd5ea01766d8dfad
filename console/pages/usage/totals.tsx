import type { ReactNode } from 'react'
import { To } from '../../app/scope.tsx'
import type { Usage } from '../../api/answers.ts'
import { Money } from '../../parts/money.tsx'
import { FAILED_PATH } from '../../parts/outcomes.ts'
import { count, percent, shortCount } from '../../parts/when.ts'
import { textOf, tokensIn, tokensOut } from './measures.ts'
import { narrowedTo } from './one-key.tsx'

/** The sums of the range. Each leads to its rows. `ofKey`: empty for those of all keys. */
export function Totals({ usage: { total }, ofKey }: { usage: Usage; ofKey: string }) {
  const all = total.requests + total.refused
  const requests = narrowedTo('/requests', ofKey)
  return (
    <dl className="totals">
      <Total name="Cost, USD" path={requests}>
        <Money usd={total.cost_usd} as="head" />
      </Total>
      <Total name="Requests" path={requests}>
        <span title={count(total.requests)}>{count(total.requests)}</span>
      </Total>
      <Total name="Tokens in, out" path={requests}>
        <span title={`${count(tokensIn(total))} in, ${count(tokensOut(total))} out`}>
          {shortCount(tokensIn(total))} <small>/</small> {shortCount(tokensOut(total))}
        </span>
      </Total>
      <Total name="Cache hit" path={requests}>
        <span title={`${count(total.tokens.cache_read)} of ${count(tokensIn(total))} tokens`}>
          {textOf('cache', total)}
        </span>
      </Total>
      <Total name="Failed" path={narrowedTo(FAILED_PATH, ofKey)}>
        {count(total.failed)} <small>{percent(total.failed, total.requests)}</small>
      </Total>
      <Total name="Refused" path={narrowedTo('/requests?outcome=refused', ofKey)}>
        {count(total.refused)} <small>{percent(total.refused, all)}</small>
      </Total>
    </dl>
  )
}

function Total({ name, path, children }: { name: string; path: string; children: ReactNode }) {
  return (
    <div className="total">
      <dt>{name}</dt>
      <dd>
        <To path={path} className="total-value number">
          {children}
        </To>
      </dd>
    </div>
  )
}
