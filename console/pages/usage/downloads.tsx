import { Menu } from '@mantine/core'
import type { Usage, UsageGroup } from '../../api/answers.ts'
import { ExportMenu } from '../../parts/export-menu.tsx'
import { download } from '../../parts/json-view.tsx'
import { wallOf, type Zone } from '../../parts/when.ts'
import { csvOf } from './csv.ts'
import { byBucket, groupName, METRICS, plainOf, type Group, type Metric } from './measures.ts'

type Props = {
  usage: Usage
  starts: readonly number[]
  groups: readonly UsageGroup[]
  metric: Metric
  by: Group
  then: Group | undefined
  zone: Zone
}

/** The numbers as they are on the page, all digits. */
export function Downloads({ usage, starts, groups, metric, by, then, zone }: Props) {
  const name = `usage-${wallOf(Date.parse(usage.from), zone).slice(0, 10)}`
  const table = (): string => {
    const names = groups.map((group) => groupName(group, by, then))
    const head = [`${usage.bucket} (${zone})`, ...names.map((one) => `${METRICS[metric].toLowerCase()} ${one}`)]
    const values = groups.map((group) => byBucket(group, starts))
    const rows = starts.map((start, index) => [
      wallOf(start, zone).replace('T', ' '),
      ...values.map((of) => (of[index] === undefined ? '' : plainOf(metric, of[index]))),
    ])
    return csvOf([head, ...rows])
  }
  return (
    <ExportMenu>
      <Menu.Item onClick={() => download(table(), `${name}-${by}${then === undefined ? '' : `-${then}`}.csv`)}>
        CSV, {METRICS[metric].toLowerCase()} over time
      </Menu.Item>
      <Menu.Item onClick={() => download(JSON.stringify(usage, null, 2), `${name}.json`)}>JSON, all measures</Menu.Item>
    </ExportMenu>
  )
}
