/**
 * Preloaded by a server that is measured: each SIGWINCH turns what `SWITCH` names off, and on again. Two servers of the
 * same code differ by more than what is to be measured, so that one has to be both.
 */
import { log } from '../src/log/log.ts'
import { Bodies } from '../src/pipeline/bodies/bodies.ts'
import { RequestCounts } from '../src/pipeline/request-counts.ts'
import { Tracing } from '../src/pipeline/tracing.ts'

export const SWITCHES = ['nothing', 'log', 'metrics', 'traces', 'all', 'capture'] as const

const { responded, closed } = RequestCounts.prototype
const { of } = Tracing.prototype
const { begin } = Bodies.prototype
const nothing = (): undefined => undefined

const observers: Record<string, (isOn: boolean) => void> = {
  log: (isOn) => log.configure({ format: 'json', level: 'info', requests: isOn ? 'all' : 'none' }),
  metrics: (isOn) => void Object.assign(RequestCounts.prototype, isOn ? { responded, closed } : NOT_COUNTED),
  traces: (isOn) => void Object.assign(Tracing.prototype, { of: isOn ? of : nothing }),
}
const NOT_COUNTED = { responded: nothing, closed: nothing }

const capture = (isOn: boolean): void => void Object.assign(Bodies.prototype, { begin: isOn ? begin : nothing })

const name = process.env.SWITCH
if (name !== undefined) {
  const one = name === 'capture' ? capture : (observers[name] ?? nothing)
  const chosen = name === 'all' ? Object.values(observers) : [one]
  let isOn = true
  process.on('SIGWINCH', () => {
    isOn = !isOn
    for (const one of chosen) one(isOn)
  })
}
