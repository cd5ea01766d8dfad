import { describe, expect, test } from 'bun:test'
import { DURABILITIES } from '../../src/config/terms.ts'
import { runs } from '../runs.ts'
import { ON_POSTGRES } from '../stores.ts'
import { KillHarness } from './kill.ts'

const ROUNDS = ON_POSTGRES ? runs(3, 50) : runs(6, 200)

describe.each(ON_POSTGRES ? [undefined] : DURABILITIES)('with durability %s', (durability) => {
  test(`a server killed ${ROUNDS} times has recorded and charged every finished generation once`, async () => {
    const harness = new KillHarness(durability)
    for (let round = 0; round < ROUNDS; round++) await harness.round(round % 3 !== 0)
    await harness.end()
    console.log(`${ROUNDS} kills, ${durability}: ${JSON.stringify(harness.counts)}`)
    // Without these it would have shown nothing.
    expect(harness.counts.finished).toBeGreaterThan(ROUNDS * 5)
    expect(harness.counts.crashed).toBeGreaterThan(0)
  }, 1_800_000)
})
