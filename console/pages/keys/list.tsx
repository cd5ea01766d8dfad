import { Button } from '@mantine/core'
import type { Key } from '../../api/answers.ts'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { Ago } from '../../parts/when.tsx'
import { LimitMeter } from './limit-meter.tsx'

export const KIND_NAMES = {
  'pay-as-you-go': 'Pay as you go',
  subscription: 'Subscription',
  management: 'Management',
} as const

export const SOURCE_NAMES: Record<string, string> = { api: 'console or API' }

export const keyText = ({ prefix, last4 }: Key): string => `${prefix ?? 'sk'}...${last4 ?? ''}`

const matches = (key: Key, filter: string): boolean =>
  [key.name, key.account.name, keyText(key), key.kind, key.id].some((text) =>
    text?.toLowerCase().includes(filter.trim().toLowerCase()),
  )

type Props = { keys: readonly Key[]; filter: string; onOpen: (id: string) => void; onCreate: () => void }

export function KeyList({ keys, filter, onOpen, onCreate }: Props) {
  const { may } = useSigned()
  const shown = keys.filter((key) => matches(key, filter))
  if (keys.length === 0)
    return (
      <Empty
        icon="key"
        title="No keys yet"
        action={may.createKeys ? <Button onClick={onCreate}>Create a key</Button> : undefined}
      >
        A client needs a key. You choose its kind, its models and how much it may spend.
      </Empty>
    )
  if (shown.length === 0) return <Empty icon="search" title={`No key matches "${filter}"`} />
  return (
    <TableScroll label="Keys">
      <table className="table table-fit">
        <thead>
          <tr>
            <th>Name</th>
            <th className="wide">Key</th>
            <th className="wide">Kind</th>
            <th className="wide">Account</th>
            <th className="wide wider">Models</th>
            <th>Limit, USD</th>
            <th className="wide">Last used</th>
            <th className="wide wider">Expires</th>
            <th className="wide wider">From</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((key) => (
            <KeyRow key={key.id} row={key} onOpen={onOpen} />
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}

function KeyRow({ row, onOpen }: { row: Key; onOpen: (id: string) => void }) {
  const { id, name, kind, account, models, last_used_at, expires_at, revoked_at, source } = row
  return (
    <tr className={revoked_at === null ? 'opens' : 'opens gone'} onClick={() => onOpen(id)}>
      <td className="cut">
        <button type="button" className="row-name">
          {name === null ? <span className="dim">no name</span> : visible(name)}
        </button>
        <code className="narrow small dim">{keyText(row)}</code>
      </td>
      <td className="wide">
        <code className="small">{keyText(row)}</code>
      </td>
      <td className="wide">{KIND_NAMES[kind]}</td>
      <td className="wide cut" title={visible(account.name ?? account.id)}>
        {visible(account.name ?? account.id)}
      </td>
      <td className="wide wider cut" title={models?.join(', ')}>
        {models === null ? <span className="dim">all</span> : models.join(', ')}
      </td>
      <td>{revoked_at === null ? <LimitMeter row={row} /> : <span className="failed">revoked</span>}</td>
      <td className="wide">
        <Ago at={last_used_at} />
      </td>
      <td className="wide wider">
        <Ago at={expires_at} />
      </td>
      <td className="wide wider dim">{SOURCE_NAMES[source] ?? source}</td>
    </tr>
  )
}
