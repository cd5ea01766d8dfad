import { useState } from 'react'
import type { Change } from '../../api/answers.ts'
import { useChanges } from '../../api/queries.ts'
import { useScope } from '../../app/scope.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Panel } from '../../parts/page.tsx'
import { Pager } from '../../parts/pager.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { oneLine, visible } from '../../parts/visible.ts'
import { When } from '../../parts/when.tsx'

const PAGE = 50

/** What was changed, by whom, and how it was before. */
export function ChangeLog() {
  const { account } = useScope()
  const [cursors, setCursors] = useState<string[]>([])
  const asked = useChanges({ account, limit: PAGE, cursor: cursors.at(-1) })
  return (
    <Panel flush>
      <Loaded asked={asked} height={300} lines={8}>
        {({ data, next }) =>
          data.length === 0 ? (
            <Empty icon="clock" title="Nothing was changed yet">
              Sign-ins, and changes of keys, accounts and people appear here.
            </Empty>
          ) : (
            <>
              <ChangeTable changes={data} />
              <Pager next={next} cursors={cursors} onTurn={setCursors} />
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}

function ChangeTable({ changes }: { changes: readonly Change[] }) {
  return (
    <TableScroll label="Change log">
      <table className="table">
        <thead>
          <tr>
            <th>Time</th>
            <th>Who</th>
            <th>Did</th>
            <th className="wide">What</th>
            <th className="wide">Change</th>
            <th className="wide">Address</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ id, at, actor, action, target, before, after, address }) => (
            <tr key={id}>
              <td className="dim">
                <When at={at} />
              </td>
              <td className="cut">{visible(actor.name)}</td>
              <td>{action}</td>
              <td className="wide cut">{visible(target)}</td>
              <td className="wide cut" title={differenceOf(before, after)}>
                {differenceOf(before, after)}
              </td>
              <td className="wide dim">{address ?? ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}

type Members = Record<string, unknown>

const isMembers = (value: unknown): value is Members => typeof value === 'object' && value !== null

/** Members that differ: `limit_usd: 5 -> 50`. */
function differenceOf(before: unknown, after: unknown): string {
  if (!isMembers(before) && !isMembers(after)) return ''
  const [old, now] = [isMembers(before) ? before : {}, isMembers(after) ? after : {}]
  const text = (value: unknown): string => (value === undefined || value === null ? 'none' : JSON.stringify(value))
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]) && (old[name] ?? now[name]) !== null)
    .map((name) =>
      oneLine(
        isMembers(before) ? `${name}: ${text(old[name])} to ${text(now[name])}` : `${name}: ${text(now[name])}`,
        80,
      ),
    )
    .join(', ')
}
