import { useMemo } from 'react'
import { instantsOf } from '../../parts/range.ts'
import { useAccounts, useRequests, useSpeed, useUsage } from '../../api/queries.ts'
import type { Query } from '../../api/ask.ts'
import { useScope } from '../../app/scope.tsx'
import { bucketOf } from '../../parts/range.ts'
import { Loaded } from '../../parts/fault.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { StillCounting } from '../../parts/still-counting.tsx'
import { useZone } from '../../parts/when.tsx'
import { Checklist } from './checklist.tsx'
import { Balances } from './balances.tsx'
import { Failures, Running } from './latest.tsx'
import { Speeds } from './speeds.tsx'
import { SpendChart } from './spend-chart.tsx'
import { Tiles } from './tiles.tsx'

const TOP_MODELS = 6
const LATEST = 25
const USAGE_EVERY_MS = 30_000
const LATEST_EVERY_MS = 5_000
const SHOWN_OUTCOMES = ['open', 'failed', 'timed-out', 'crashed', 'refused'] as const

/** The state of the installation in four questions. */
export function Home() {
  const { account, range } = useScope()
  const tz = useZone()
  const scope: Query = { account, tz }
  const bucket = useMemo(() => bucketOf(range, Date.now()), [range])
  const usage = useUsage(
    { ...scope, ...range, bucket, group: ['model'], top: TOP_MODELS },
    { refetchInterval: USAGE_EVERY_MS },
  )
  const before = useUsage({ ...scope, ...useRangeBefore(range), bucket: 'none' }, { refetchInterval: USAGE_EVERY_MS })
  const speed = useSpeed({ tz, ...range, bucket: 'none' }, { refetchInterval: USAGE_EVERY_MS })
  const latest = useRequests(
    { account, outcome: [...SHOWN_OUTCOMES], limit: LATEST },
    { refetchInterval: LATEST_EVERY_MS },
  )
  const accounts = useAccounts()
  const shown = accounts.data?.data.filter(
    ({ id, name }) => account === undefined || account === id || account === name,
  )
  return (
    <PageFrame title="Home">
      <Checklist hasRequests={usage.data === undefined ? undefined : usage.data.total.requests > 0} />
      <Loaded asked={usage} height={92}>
        {(data) => <Tiles usage={data} before={before.data} speed={speed.data} />}
      </Loaded>
      <div className="home-grid">
        <Panel title="Cost by model, USD">
          <Loaded asked={usage} height={292}>
            {(data) => (
              <>
                <SpendChart usage={data} />
                <StillCounting of={data} />
              </>
            )}
          </Loaded>
        </Panel>
        <Panel title="Running now" flush>
          <Loaded asked={latest} height={292} lines={6}>
            {({ data }) => <Running rows={data.filter(({ outcome }) => outcome === 'open')} />}
          </Loaded>
        </Panel>
        <Panel title="Latest failures" flush>
          <Loaded asked={latest} height={216} lines={5}>
            {({ data }) => <Failures rows={data.filter(({ outcome }) => outcome !== 'open').slice(0, 5)} />}
          </Loaded>
        </Panel>
        <Panel title="Time to the first token" flush>
          <Loaded asked={speed} height={216} lines={5}>
            {(data) => (
              <>
                <Speeds speed={data} />
                <StillCounting of={data} />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
      {shown !== undefined && <Balances accounts={shown} />}
    </PageFrame>
  )
}

/** The period of the same length before the range; one that ends now is rounded to a minute, so that it is stable. */
function useRangeBefore(range: Parameters<typeof instantsOf>[0]): { from: string; to: string } {
  const minute = Math.floor(Date.now() / 60_000) * 60_000
  return useMemo(() => {
    const { from, to } = instantsOf(range, minute)
    return { from: new Date(2 * from - to).toISOString(), to: new Date(from).toISOString() }
  }, [range, minute])
}
