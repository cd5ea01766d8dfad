import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { useAll } from '../../api/queries.ts'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Money } from '../../parts/money.tsx'
import { sumUsd } from '../../parts/money.ts'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { visible } from '../../parts/visible.ts'
import { AuditPanel } from './audit.tsx'
import type { Balance } from './shapes.ts'
import { Transfers } from './transfers.tsx'

/** The double-entry book: balances, postings, and the proof that they are right. */
export function Book() {
  const { account } = useScope()
  const { may } = useSigned()
  const balances = useAll<Balance>('/book/balances', { account })
  return (
    <PageFrame title="Book" note="Every amount is a transfer from one account of the book to another.">
      {may.readInstallation && <AuditPanel />}
      <Panel title="Balances" flush>
        <Loaded asked={balances} height={180} lines={4}>
          {({ data, next }) =>
            data.length === 0 ? (
              <Empty icon="book" title="Nothing has been posted yet">
                The first credit or request opens the accounts of the book.
              </Empty>
            ) : (
              <Balances balances={data} isWhole={next === null && account === undefined && may.readInstallation} />
            )
          }
        </Loaded>
      </Panel>
      <Transfers account={account} />
    </PageFrame>
  )
}

/** The whole book adds up to zero: each transfer takes from one account what it gives to another. */
function Balances({ balances, isWhole }: { balances: readonly Balance[]; isWhole: boolean }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Balances">
      <table className="table">
        <thead>
          <tr>
            <th>Account</th>
            <th>Of</th>
            <th className="right">Balance, USD</th>
          </tr>
        </thead>
        <tbody>
          {balances.map(({ kind, owner, account, balance_usd }) => (
            <tr key={`${kind} ${owner ?? ''}`}>
              <td>{kind}</td>
              <td className="cut">{visible(account?.name ?? owner ?? 'the installation')}</td>
              <td className="right">
                <Money usd={balance_usd} />
              </td>
            </tr>
          ))}
          {isWhole && (
            <tr className="table-sum">
              <td colSpan={2} className="wrap">
                Together, which is zero in a book that is right
              </td>
              <td className="right">
                <Money usd={sumUsd(balances.map(({ balance_usd }) => balance_usd))} />
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  )
}
