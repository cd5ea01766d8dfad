import type { Answer } from '../../api/ask.ts'
import type { Account } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { CaptureSwitch } from '../../parts/capture-switch.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Id } from '../../parts/id.tsx'
import { Meter } from '../../parts/meter.tsx'
import { Money } from '../../parts/money.tsx'
import { Ago, When } from '../../parts/when.tsx'
import { AddCredit, ChangeAccount, MemberRequests } from './forms.tsx'

/** One account: what it has left and why, and what can be changed of it. */
export function AccountSheet({ answer }: { answer: Answer<Account> }) {
  const { may } = useSigned()
  const { data: account } = answer
  return (
    <div className="stack-wide">
      <Facts>
        <Fact name="Balance">
          <Money usd={account.balance_usd} as="head" /> USD
        </Fact>
        <Fact name="Bonus in it">
          <Money usd={account.bonus_usd} as="head" /> USD
        </Fact>
        <Fact name="Held for requests in flight">
          <Money usd={account.held_usd} as="head" /> USD
        </Fact>
        <Fact name="Status">
          <span className={account.status === 'healthy' ? '' : 'failed'}>{account.status}</span>
        </Fact>
        <Fact name="Plan">
          <span>
            {account.plan.tier}
            <span className="dim">
              , {account.plan.renews ? 'renews' : 'ends'} <Ago at={account.plan.ends_at} />
              {account.plan.next_tier !== null && <>, then {account.plan.next_tier}</>}
            </span>
          </span>
        </Fact>
        <Fact name="Discount">
          {account.discount === 0 ? <span className="dim">none</span> : `${account.discount} %`}
        </Fact>
        <Fact name="Made">
          <When at={account.created_at} />
        </Fact>
        <Fact name="Id">
          <Id id={account.id} />
        </Fact>
      </Facts>
      {account.windows.length > 0 && (
        <div className="stack">
          {account.windows.map((window) => (
            <Meter key={window.name} {...window} unit="flows" />
          ))}
        </div>
      )}
      <div className="links">
        <To path={`/requests?account=${encodeURIComponent(account.id)}`} className="link">
          Requests
        </To>
        <To path={`/usage?account=${encodeURIComponent(account.id)}`} className="link">
          Usage
        </To>
        <To path={`/keys?account=${encodeURIComponent(account.id)}`} className="link">
          Keys
        </To>
        <To path={`/book?account=${encodeURIComponent(account.id)}`} className="link">
          Postings
        </To>
      </div>
      {may.changeInstallation && <AddCredit id={account.id} />}
      {may.manageAccount(account.id) && <MemberRequests answer={answer} />}
      {may.changeInstallation && <CaptureSwitch path={`/accounts/${encodeURIComponent(account.id)}`} answer={answer} />}
      {may.changeInstallation && <ChangeAccount answer={answer} />}
    </div>
  )
}
