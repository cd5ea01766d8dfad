import { Tabs } from '@mantine/core'
import { useMemo } from 'react'
import { To } from '../../app/scope.tsx'
import type { Measures, Usage, UsageGroup } from '../../api/answers.ts'
import { Empty } from '../../parts/empty.tsx'
import { Money } from '../../parts/money.tsx'
import { FILTER_FIELDS } from '../../parts/filters.ts'
import { bucketText, count, type Zone } from '../../parts/when.ts'
import { groupName } from './chart.tsx'
import { byBucket, exactTextOf, GROUPS, isRest, METRICS, textOf, tokensIn, tokensOut } from './measures.ts'
import type { Group, GroupKey, Metric } from './measures.ts'
import { narrowedTo } from './one-key.tsx'

type Props = {
  usage: Usage
  starts: readonly number[]
  groups: readonly UsageGroup[]
  metric: Metric
  zone: Zone
  by: Group
  then: Group | undefined
  /** The key to which the page is narrowed; empty for all. */
  ofKey: string
}

/** The numbers of the chart, by group and over time. */
export function UsageTables(props: Props) {
  if (props.groups.length === 0)
    return (
      <section className="panel">
        <Empty
          icon="usage"
          title="Nothing was used in this range"
          action={
            <To path="/playground" className="link">
              Open the playground
            </To>
          }
        >
          Choose a longer range above, or send a request from a client with a key.
        </Empty>
      </section>
    )
  return (
    <Tabs defaultValue="groups" keepMounted={false} className="usage-tables">
      <Tabs.List>
        <Tabs.Tab value="groups">By {GROUPS[props.by].toLowerCase()}</Tabs.Tab>
        <Tabs.Tab value="times">
          Over time: {METRICS[props.metric].toLowerCase()}
          {props.metric === 'cost' ? ', USD' : ''}
        </Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="groups">
        <GroupTable {...props} />
      </Tabs.Panel>
      <Tabs.Panel value="times">
        <TimeTable {...props} />
      </Tabs.Panel>
    </Tabs>
  )
}

function GroupTable({ usage, groups, by, then, ofKey }: Props) {
  return (
    <div className="panel panel-flush table-scroll" tabIndex={0} role="region" aria-label="Numbers by group">
      <table className="table">
        <thead>
          <tr>
            <th>
              {GROUPS[by]}
              {then === undefined ? '' : `, ${GROUPS[then].toLowerCase()}`}
            </th>
            {['Requests', 'Failed', 'Refused', 'Tokens in', 'Cache hit', 'Tokens out', 'Cost, USD'].map((name) => (
              <th key={name} className="right">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {groups.map((group, index) => (
            <tr key={index}>
              <td className="cut">
                <GroupLink {...{ group, by, then, ofKey }} />
              </td>
              <Numbers measures={group.total} />
            </tr>
          ))}
          <tr className="table-sum">
            <td>All</td>
            <Numbers measures={usage.total} />
          </tr>
        </tbody>
      </table>
    </div>
  )
}

function Numbers({ measures }: { measures: Measures }) {
  return (
    <>
      {[measures.requests, measures.failed, measures.refused, tokensIn(measures)].map((number, index) => (
        <td key={index} className={number === 0 ? 'right number dim' : 'right number'}>
          {count(number)}
        </td>
      ))}
      <td className="right number">{textOf('cache', measures)}</td>
      <td className="right number">{count(tokensOut(measures))}</td>
      <td className="right">
        <Money usd={measures.cost_usd} />
      </td>
    </>
  )
}

/** Leads to the requests of the group, where they can be filtered by it. */
function GroupLink({ group, by, then, ofKey }: Pick<Props, 'by' | 'then' | 'ofKey'> & { group: UsageGroup }) {
  const name = groupName(group, by)
  const keys = group.key as GroupKey
  const values = Array.isArray(keys) ? keys : [keys]
  const fields = then === undefined ? [by] : [by, then]
  const canFilter = fields.every((field, index) => (field in FILTER_FIELDS || field === 'account') && values[index])
  if (isRest(group) || !canFilter) return <span title={name}>{name}</span>
  const query = new URLSearchParams(fields.map((field, index) => [field, String(values[index])]))
  return (
    <To path={narrowedTo(`/requests?${query}`, fields.includes('key') ? '' : ofKey)} className="link" title={name}>
      {name}
    </To>
  )
}

const MOST_TIMES = 750

function TimeTable({ usage, starts, groups, metric, zone, by }: Props) {
  const values = useMemo(() => groups.map((group) => byBucket(group, starts)), [groups, starts])
  const times = starts.map((start, index) => ({ start, index })).toReversed()
  const used = times.filter(({ index }) => values.some((of) => of[index] !== undefined)).slice(0, MOST_TIMES)
  return (
    <div
      className="panel panel-flush table-scroll usage-times"
      tabIndex={0}
      role="region"
      aria-label="Numbers over time"
    >
      <table className="table">
        <thead>
          <tr>
            <th className="first-big">{usage.bucket}</th>
            {groups.map((group, index) => (
              <th key={index} className="right cut">
                {groupName(group, by)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {used.map(({ start, index }) => (
            <tr key={start}>
              <td className="number">{bucketText(start, usage.bucket, zone)}</td>
              {values.map((of, group) => (
                <td
                  key={group}
                  className={of[index] === undefined ? 'right number dim' : 'right number'}
                  title={exactTextOf(metric, of[index])}
                >
                  {of[index] === undefined ? '-' : textOf(metric, of[index])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
