import type { Account } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { Meter } from '../../parts/meter.tsx'
import { Money } from '../../parts/money.tsx'
import { Panel } from '../../parts/page.tsx'
import { visible } from '../../parts/visible.ts'

const MOST_SHOWN = 6

/** The rest of each account: credit, and the windows of its plan. */
export function Balances({ accounts }: { accounts: readonly Account[] }) {
  return (
    <Panel title={accounts.length === 1 ? 'Balance' : 'Balances'} flush>
      <ul className="rows">
        {accounts.slice(0, MOST_SHOWN).map(({ id, name, balance_usd, held_usd, windows }) => (
          <li key={id}>
            <To path={`/accounts/${id}`} className="rows-link balance">
              <span className="rows-main">{visible(name)}</span>
              <span className="number">
                <Money usd={balance_usd} as="head" /> USD
                <span className="dim">
                  , held <Money usd={held_usd} as="head" />
                </span>
              </span>
              <span className="balance-windows">
                {windows.map((window) => (
                  <Meter key={window.name} {...window} />
                ))}
              </span>
            </To>
          </li>
        ))}
      </ul>
    </Panel>
  )
}
