/**
 * Preloaded by a server that is measured: each SIGWINCH turns what `SWITCH` names off, and on again. Two servers of the
 * same code differ by more than what is to be measured, so that one has to be both.
 */
import { log } from '../src/log/log.ts'
import { Bodies } from '../src/pipeline/bodies/bodies.ts'
import { RequestCounts } from '../src/pipeline/request-counts.ts'
import { Tracing } from '../src/pipeline/tracing.ts'

export const SWITCHES = ['nothing', 'log', 'metrics', 'traces', 'all', 'capture'] as const

let isOn = true

/**
 * Has methods do nothing while the switch is off. They are replaced once: with each later replacement the compiler
 * would discard the code of their callers, and both states would run slower code than a server does.
 */
function switchMethods(prototype: object, ...names: string[]): void {
  const methods = prototype as Record<string, (...args: unknown[]) => unknown>
  for (const name of names) {
    const method = methods[name]!
    methods[name] = function (...args) {
      return isOn ? method.apply(this, args) : undefined
    }
  }
}

const setLog = (): void => log.configure({ format: 'json', level: 'info', requests: isOn ? 'all' : 'none' })

const name = process.env.SWITCH
if (name !== undefined) {
  if (name === 'metrics' || name === 'all') switchMethods(RequestCounts.prototype, 'responded', 'closed')
  if (name === 'traces' || name === 'all') switchMethods(Tracing.prototype, 'of')
  if (name === 'capture') switchMethods(Bodies.prototype, 'begin')
  process.on('SIGWINCH', () => {
    isOn = !isOn
    if (name === 'log' || name === 'all') setLog()
  })
}
