import type { ReactNode } from 'react'
import { To } from '../../app/scope.tsx'
import type { Usage } from '../../api/answers.ts'
import { Money } from '../../parts/money.tsx'
import { count, percent, shortCount } from '../../parts/when.ts'
import { tokensIn, tokensOut } from './measures.ts'

/** The sums of the range. Each leads to its rows. */
export function Totals({ usage: { total } }: { usage: Usage }) {
  const all = total.requests + total.refused
  return (
    <dl className="totals">
      <Total name="Cost, USD" path="/requests">
        <Money usd={total.cost_usd} as="head" />
      </Total>
      <Total name="Requests" path="/requests">
        <span title={count(total.requests)}>{count(total.requests)}</span>
      </Total>
      <Total name="Tokens in, out" path="/requests">
        <span title={`${count(tokensIn(total))} in, ${count(tokensOut(total))} out`}>
          {shortCount(tokensIn(total))} <small>/</small> {shortCount(tokensOut(total))}
        </span>
      </Total>
      <Total name="Cache hit" path="/requests">
        <span title={`${count(total.tokens.cache_read)} of ${count(tokensIn(total))} tokens`}>
          {percent(total.tokens.cache_read, tokensIn(total))}
        </span>
      </Total>
      <Total name="Failed" path="/requests?outcome=failed&outcome=timed-out&outcome=crashed">
        {count(total.failed)} <small>{percent(total.failed, total.requests)}</small>
      </Total>
      <Total name="Refused" path="/requests?outcome=refused">
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
