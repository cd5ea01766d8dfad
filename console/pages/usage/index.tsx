import { SegmentedControl, Select } from '@mantine/core'
import { useMemo } from 'react'
import { useParam } from '../../app/param.ts'
import { useScope } from '../../app/scope.tsx'
import type { Usage as UsageAnswer } from '../../api/answers.ts'
import { useAsk } from '../../api/queries.ts'
import { Loaded } from '../../parts/fault.tsx'
import { PageFrame } from '../../parts/page.tsx'
import { bucketStarts, endOf, isOpenEnded } from '../../parts/range.ts'
import { StillCounting } from '../../parts/still-counting.tsx'
import { useZone } from '../../parts/when.tsx'
import { UsageChart } from './chart.tsx'
import { Downloads } from './downloads.tsx'
import { GROUPS, METRICS, sortedGroups } from './measures.ts'
import { OneKey } from './one-key.tsx'
import { UsageTables } from './tables.tsx'
import { Totals } from './totals.tsx'
import { BUCKETS, useUsageView, type UsageView } from './use-view.ts'

const AGAIN_MS = 30_000
const MOST_GROUPS = 8

/** Requests, tokens and money over time, by what they are grouped by. */
export function Usage() {
  const { account, range } = useScope()
  const zone = useZone()
  const view = useUsageView(range)
  const { by, then, bucket, metric } = view
  const [key, setKey] = useParam('key')
  const asked = useAsk<UsageAnswer>(
    '/usage',
    {
      account,
      key: key === '' ? undefined : key,
      from: range.from,
      to: range.to,
      tz: zone,
      bucket,
      group: then === undefined ? [by] : [by, then],
      top: MOST_GROUPS,
    },
    { refetchInterval: isOpenEnded(range) ? AGAIN_MS : false },
  )
  const shown = useMemo(() => {
    if (asked.data === undefined) return undefined
    const usage = asked.data
    const starts = bucketStarts(Date.parse(usage.from), Date.parse(usage.to), usage.bucket, zone)
    const end = endOf(starts.at(-1) ?? 0, usage.bucket, zone)
    return { usage, starts, end, groups: sortedGroups(usage, metric) }
  }, [asked.data, zone, metric])
  return (
    <PageFrame
      title="Usage"
      actions={shown === undefined ? undefined : <Downloads {...shown} metric={metric} by={by} {...{ then, zone }} />}
    >
      <Controls view={view} />
      {key !== '' && <OneKey id={key} onEnd={() => setKey('')} />}
      <Loaded asked={{ ...asked, data: shown }} height={560} lines={3}>
        {({ usage, starts, end, groups }) => (
          <>
            <Totals usage={usage} ofKey={key} />
            {groups.length > 0 && (
              <section className="panel usage-chart" aria-label="Chart">
                <UsageChart {...{ usage, starts, end, groups, metric, zone, by, then }} />
              </section>
            )}
            <UsageTables {...{ usage, starts, groups, metric, zone, by, then }} ofKey={key} />
            <StillCounting of={usage} />
          </>
        )}
      </Loaded>
    </PageFrame>
  )
}

const options = (names: Readonly<Record<string, string>>): { value: string; label: string }[] =>
  Object.entries(names).map(([value, label]) => ({ value, label }))

function Controls({ view }: { view: UsageView }) {
  const { metric, by, then, bucket, isOwnBucket, set } = view
  return (
    <div className="usage-controls">
      <SegmentedControl
        size="xs"
        aria-label="Metric"
        className="usage-metrics"
        value={metric}
        onChange={(value) => set('metric', value === 'cost' ? undefined : value)}
        data={options(METRICS)}
      />
      <Select
        size="xs"
        aria-label="Group by"
        className="usage-select"
        value={by}
        onChange={(value) => set('by', value === 'model' ? undefined : (value ?? undefined))}
        data={options(GROUPS).map((one) => ({ ...one, label: `By ${one.label.toLowerCase()}` }))}
      />
      <Select
        size="xs"
        aria-label="And then by"
        className="usage-select"
        placeholder="and then by"
        clearable
        allowDeselect
        value={then ?? null}
        onChange={(value) => set('then', value ?? undefined)}
        data={options(GROUPS)
          .filter(({ value }) => value !== by)
          .map((one) => ({ ...one, label: `then ${one.label.toLowerCase()}` }))}
      />
      <Select
        size="xs"
        aria-label="Bucket"
        className="usage-select"
        value={isOwnBucket ? bucket : ''}
        onChange={(value) => set('bucket', value === '' || value === null ? undefined : value)}
        data={[
          { value: '', label: `Each ${isOwnBucket ? 'as fits' : bucket}` },
          ...BUCKETS.map((value) => ({ value, label: `Each ${value}` })).filter(
            ({ value }) => isOwnBucket || value !== bucket,
          ),
        ]}
      />
    </div>
  )
}
