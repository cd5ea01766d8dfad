import { Fragment, useState } from 'react'
import type { Change } from '../../api/answers.ts'
import { useAccounts, useChanges, useKeys, useUsers } from '../../api/queries.ts'
import { useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Id } from '../../parts/id.tsx'
import { Panel } from '../../parts/page.tsx'
import { Pager, useCursors } from '../../parts/pager.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { When } from '../../parts/when.tsx'
import { type Difference, differencesOf, nameIn, sentenceOf } from './differences.ts'

const PAGE = 50
const COLUMNS = 6
const IS_ID = /^[a-z]+_\w{16,}$/

/** Changes, with their authors and the values before. */
export function ChangeLog() {
  const { account } = useScope()
  const [cursors, setCursors] = useCursors({ account })
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
  const [opened, setOpened] = useState<number>()
  const nameOf = useNames(changes)
  return (
    <TableScroll label="Change log">
      <table className="table table-fit">
        <thead>
          <tr>
            <th>Time</th>
            <th className="wide">Who</th>
            <th>Did</th>
            <th className="wide">To</th>
            <th className="wide">Change</th>
            <th className="wide">Address</th>
          </tr>
        </thead>
        <tbody>
          {changes.map((change) => {
            const isOpen = change.id === opened
            const row = { change, name: nameOf(change.target), isOpen }
            return (
              <Fragment key={change.id}>
                <ChangeRow {...row} onOpen={() => setOpened(isOpen ? undefined : change.id)} />
                {isOpen && <Details change={change} />}
              </Fragment>
            )
          })}
        </tbody>
      </table>
    </TableScroll>
  )
}

/** Names of what was changed: those of now, else those that its lines have. */
function useNames(changes: readonly Change[]): (id: string) => string | undefined {
  const { session } = useSigned()
  const [accounts, users, keys] = [useAccounts(), useUsers(), useKeys()]
  const lists: (readonly { id: string; name: string | null }[] | undefined)[] = [
    accounts.data?.data,
    users.data?.data,
    keys.data?.data,
    [session.user],
  ]
  const names = new Map<string, string>()
  for (const { target, before, after } of changes) {
    const name = nameIn(after) ?? nameIn(before)
    if (name !== undefined && !names.has(target)) names.set(target, name)
  }
  for (const { id, name } of lists.flatMap((list) => list ?? [])) if (name !== null) names.set(id, name)
  return (id) => names.get(id)
}

type RowProps = { change: Change; name: string | undefined; isOpen: boolean; onOpen: () => void }

function ChangeRow({ change: { at, actor, action, target, before, after, address }, name, isOpen, onOpen }: RowProps) {
  const text = sentenceOf(differencesOf(before, after))
  return (
    <tr className="opens" onClick={onOpen}>
      <td className="dim">
        <When at={at} />
      </td>
      <td className="wide cut">{visible(actor.name)}</td>
      <td>
        <button
          type="button"
          className="row-name"
          aria-expanded={isOpen}
          onClick={(event) => {
            event.stopPropagation()
            onOpen()
          }}
        >
          {action}
        </button>
        <span className="narrow small dim">
          {[...new Set([name ?? target, actor.name])].filter(Boolean).map(visible).join(', by ')}
        </span>
      </td>
      <td className="wide cut" title={visible(target)}>
        {name === undefined && IS_ID.test(target) ? <code className="small">{target}</code> : visible(name ?? target)}
      </td>
      <td className="wide cut-rest dim" title={text}>
        {text}
      </td>
      <td className="wide dim">{address ?? ''}</td>
    </tr>
  )
}

/** Each member that differs, as it was and as it is. */
function Details({ change: { actor, target, before, after, address } }: { change: Change }) {
  const differences = differencesOf(before, after).filter(({ is }) => is !== target)
  return (
    <tr className="row-details">
      <td colSpan={COLUMNS}>
        <Facts>
          <Fact name="Who">
            {visible(actor.name)}
            <span className="dim">{address === null ? '' : `, from ${address}`}</span>
          </Fact>
          {target !== '' && (
            <Fact name="To">
              <Id id={target} />
            </Fact>
          )}
          {differences.map((one) => (
            <Fact key={one.name} name={one.name}>
              <Values {...one} />
            </Fact>
          ))}
        </Facts>
      </td>
    </tr>
  )
}

function Values({ was, is }: Difference) {
  return (
    <span className="row-values">
      {was !== undefined && (
        <>
          <span className="dim">{visible(was)}</span> to{' '}
        </>
      )}
      {visible(is)}
    </span>
  )
}
