import type { Family, Sample } from './family.ts'
import type { Histogram } from './histogram.ts'

/** The text format of Prometheus. */
export async function exposition(families: readonly Family[]): Promise<{ text: string; contentType: string }> {
  // Not loaded by servers that are not asked.
  const { Registry } = await import('prom-client')
  const registry = new Registry()
  for (const family of families) registry.registerMetric(metricOf(family) as never)
  return { text: await registry.metrics(), contentType: registry.contentType }
}

/** The part of a metric of `prom-client` that its registry reads. */
const metricOf = (family: Family): object => ({
  name: family.name,
  get: () => ({ ...family, values: family.samples().flatMap((sample) => valuesOf(family.name, sample)) }),
})

type Value = { metricName?: string; labels: Record<string, string | number>; value: number }

const valuesOf = (name: string, { labels, value }: Sample): Value[] =>
  typeof value === 'number' ? [{ labels, value }] : histogramValues(name, labels, value)

function histogramValues(name: string, labels: Sample['labels'], { bounds, counts, sum }: Histogram): Value[] {
  let count = 0
  const buckets = [...bounds, '+Inf'].map((le, at) => ({
    metricName: `${name}_bucket`,
    labels: { ...labels, le },
    value: (count += counts[at]!),
  }))
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: count },
  ]
}
