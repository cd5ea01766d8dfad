import { describe, expect, test } from 'bun:test'
import { useKnownTargets } from '../../src/pipeline/heavy/known-targets.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'

describe('useKnownTargets', () => {
  const endpoint = (protocol: string, model: string): Endpoint =>
    ({ protocol, target: { provider: 'p', model, quirks: {}, capabilities: {} } }) as unknown as Endpoint
  const targetOf = (protocol: string, model: string): unknown => {
    const one = endpoint(protocol, model)
    useKnownTargets([one])
    return one.target
  }

  test('an endpoint of a later job has the target of the job before', () => {
    const first = targetOf('messages', 'm')
    expect(targetOf('messages', 'm')).toBe(first)
    expect(targetOf('messages', 'other')).not.toBe(first)
  })

  test('endpoints of two protocols have a target each', () => {
    expect(targetOf('messages', 'same')).not.toBe(targetOf('responses', 'same'))
  })

  test('the targets of a thousand endpoints are known', () => {
    const first = targetOf('messages', 'first')
    for (let i = 0; i < 999; i++) targetOf('messages', String(i))
    expect(targetOf('messages', '0')).not.toBe(first)
    for (let i = 0; i < 1_000; i++) targetOf('messages', `new-${i}`)
    expect(targetOf('messages', 'first')).not.toBe(first)
  })
})
