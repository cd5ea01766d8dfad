import type { Histogram } from './histogram.ts'

export type Labels = Readonly<Record<string, string>>

export type Sample = { labels: Labels; value: number | Histogram }

/** One metric with all its series. Values are read at a scrape, not when they change. */
export type Family = {
  /** As Prometheus has it, with its unit: `sluice_commit_duration_seconds`. */
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  samples(): Sample[]
  /** Name and unit in OpenTelemetry, where they are not those of the name. */
  otel?: { name: string; unit: string }
}
