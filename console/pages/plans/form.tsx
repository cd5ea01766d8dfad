import type { Plan } from '../../api/answers.ts'
import { useTagged } from '../../api/queries.ts'
import { type Field, ObjectForm } from '../../parts/object-form.tsx'

const FIELDS: readonly Field[] = [
  { path: 'usdPerMonth', label: 'USD a month', kind: 'number' },
  { path: 'flows.5_hour', label: 'Flows in 5 hours', kind: 'number' },
  { path: 'flows.7_day', label: 'Flows in 7 days', kind: 'number' },
  { path: 'flows.monthly', label: 'Flows in a month', kind: 'number' },
  { path: 'discount', label: 'Discount off pay-as-you-go bills, percent', kind: 'number' },
]

/** The present value of each field. */
const inForceOf = ({ price_usd, discount, windows }: Plan): Record<string, string> => ({
  usdPerMonth: price_usd,
  discount: String(discount),
  ...Object.fromEntries(windows.map(({ name, flows }) => [`flows.${name}`, String(flows)])),
})

/** Sets up a plan, or changes one that is built in or was set up here: what stays empty is as it is built in. */
export function PlanForm({ tier, onClose }: { tier: string | undefined; onClose: () => void }) {
  const asked = useTagged<Plan>(`/plans/${encodeURIComponent(tier ?? '')}`, { enabled: tier !== undefined })
  if (tier !== undefined && asked.data === undefined) return null
  const plan = asked.data?.data
  const set = plan?.set ?? null
  const inForce = plan === undefined ? {} : inForceOf(plan)
  return (
    <ObjectForm
      what="plan"
      base="/plans"
      nameLabel="Name"
      fields={FIELDS.map((field) => ({ ...field, placeholder: inForce[field.path] }))}
      note={plan !== undefined && set === null && <p className="note">What stays empty is as it is built in.</p>}
      object={{ name: tier, value: set?.value ?? {}, etag: asked.data?.etag ?? null, isSet: set !== null }}
      onClose={onClose}
    />
  )
}
