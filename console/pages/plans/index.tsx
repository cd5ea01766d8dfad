import { useState } from 'react'
import type { Plan } from '../../api/answers.ts'
import { usePlans } from '../../api/queries.ts'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { windowName } from '../../parts/meter.tsx'
import { Money } from '../../parts/money.tsx'
import { ChangeButton, Origin } from '../../parts/object-form.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { count } from '../../parts/when.ts'
import { PlanForm } from './form.tsx'

/** Plans of subscriptions: what each window has in flows, and what that is worth at list prices. */
export function Plans() {
  const asked = usePlans()
  const { may } = useSigned()
  const [form, setForm] = useState<{ tier: string | undefined }>()
  return (
    <PageFrame
      title="Plans"
      note="What subscription keys of an account may use. A flow is a fixed amount of USD at list prices."
      actions={may.changeInstallation && <AddButton onClick={() => setForm({ tier: undefined })}>Add a plan</AddButton>}
    >
      <Panel flush>
        <Loaded asked={asked} height={200} lines={4}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty icon="plan" title="No plans" />
            ) : (
              <PlanTable plans={data} onChange={(tier) => setForm({ tier })} />
            )
          }
        </Loaded>
      </Panel>
      {form !== undefined && <PlanForm tier={form.tier} onClose={() => setForm(undefined)} />}
    </PageFrame>
  )
}

const periodOf = (window: string): string => (window === 'monthly' ? 'a month' : windowName(window))

/** The flows of a window, and their worth at list prices. */
function Flows({ window: { flows, value_usd } }: { window: Plan['windows'][number] }) {
  return (
    <>
      {count(flows)}{' '}
      <span className="dim">
        (<Money usd={value_usd} as="head" /> USD)
      </span>
    </>
  )
}

function PlanTable({ plans, onChange }: { plans: readonly Plan[]; onChange: (tier: string) => void }) {
  const { may } = useSigned()
  const windows = [...new Set(plans.flatMap((plan) => plan.windows.map(({ name }) => name)))]
  return (
    <TableScroll label="Plans">
      <table className="table">
        <thead>
          <tr>
            <th>Plan</th>
            <th className="right wide">USD a month</th>
            <th className="right wide wider">Discount</th>
            {windows.map((name) => (
              <th key={name} className="right wide">
                Flows in {periodOf(name)}
              </th>
            ))}
            <th className="wide wider">Set by</th>
            {may.changeInstallation && <th className="right">Change</th>}
          </tr>
        </thead>
        <tbody>
          {plans.map((plan) => (
            <tr key={plan.tier}>
              <td>
                {plan.tier}
                <span className="narrow small">
                  <Money usd={plan.price_usd} as="head" /> USD a month
                </span>
                {plan.windows.map((window) => (
                  <span key={window.name} className="narrow small dim">
                    <Flows window={window} /> in {periodOf(window.name)}
                  </span>
                ))}
              </td>
              <td className="right wide">
                <Money usd={plan.price_usd} as="head" />
              </td>
              <td className="right number wide wider">
                {plan.discount === 0 ? <span className="dim">-</span> : `${plan.discount} %`}
              </td>
              {windows.map((name) => {
                const found = plan.windows.find((window) => window.name === name)
                return (
                  <td key={name} className="right number wide">
                    {found === undefined ? '-' : <Flows window={found} />}
                  </td>
                )
              })}
              <td className="wide wider">
                <Origin set_in={plan.set_in} set={plan.set} />
              </td>
              {may.changeInstallation && (
                <td className="right">
                  {plan.set_in === null && <ChangeButton name={plan.tier} onClick={() => onChange(plan.tier)} />}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}
