import { Tabs } from '@mantine/core'
import { useMemo } from 'react'
import { To } from '../../app/scope.tsx'
import type { Measures, Usage, UsageGroup } from '../../api/answers.ts'
import { Empty } from '../../parts/empty.tsx'
import { Money } from '../../parts/money.tsx'
import { bucketText, count, type Zone } from '../../parts/when.ts'
import { byBucket, exactTextOf, groupFilters, groupName, GROUPS, METRICS } from './measures.ts'
import { textOf, tokensIn, tokensOut, type Group, type Metric } from './measures.ts'
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

const COLUMNS: readonly (readonly [title: string, metric: Metric])[] = [
  ['Requests', 'requests'],
  ['Failed', 'failed'],
  ['Refused', 'refused'],
  ['Tokens in', 'tokens'],
  ['Cache hit', 'cache'],
  ['Tokens out', 'tokens'],
  ['Cost, USD', 'cost'],
]

/** A phone has the columns of requests, of cost and of the chosen metric. Tokens have two, in place of requests. */
const widthOf = (column: Metric, metric: Metric): string =>
  column === metric || column === 'cost' || (column === 'requests' && metric !== 'tokens') ? 'right' : 'right wide'

function GroupTable({ usage, groups, by, then, ofKey, metric }: Props) {
  return (
    <div className="panel panel-flush table-scroll" tabIndex={0} role="region" aria-label="Numbers by group">
      <table className="table">
        <thead>
          <tr>
            <th>
              {GROUPS[by]}
              {then === undefined ? '' : `, ${GROUPS[then].toLowerCase()}`}
            </th>
            {COLUMNS.map(([title, column]) => (
              <th key={title} className={widthOf(column, metric)}>
                {title}
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
              <Numbers measures={group.total} metric={metric} />
            </tr>
          ))}
          <tr className="table-sum">
            <td>All</td>
            <Numbers measures={usage.total} metric={metric} />
          </tr>
        </tbody>
      </table>
    </div>
  )
}

function Numbers({ measures, metric }: { measures: Measures; metric: Metric }) {
  const { requests, failed, refused, cost_usd } = measures
  const numbers = [requests, failed, refused, tokensIn(measures), textOf('cache', measures), tokensOut(measures)]
  return (
    <>
      {COLUMNS.map(([title, column], index) => {
        const number = numbers[index]
        return (
          <td key={title} className={`${widthOf(column, metric)} number${number === 0 ? ' dim' : ''}`}>
            {number === undefined ? <Money usd={cost_usd} /> : typeof number === 'number' ? count(number) : number}
          </td>
        )
      })}
    </>
  )
}

/** Leads to the requests of the group, where they can be filtered by it. */
function GroupLink({ group, by, then, ofKey }: Pick<Props, 'by' | 'then' | 'ofKey'> & { group: UsageGroup }) {
  const name = groupName(group, by, then)
  const filters = groupFilters(group, by, then)
  if (filters === undefined) return <span title={name}>{name}</span>
  const isOfKey = by === 'key' || then === 'key'
  const path = narrowedTo(`/requests?${new URLSearchParams(filters)}`, isOfKey ? '' : ofKey)
  return (
    <To path={path} className="link" title={name}>
      {name}
    </To>
  )
}

const MOST_TIMES = 750

function TimeTable({ usage, starts, groups, metric, zone, by, then }: Props) {
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
                {groupName(group, by, then)}
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
