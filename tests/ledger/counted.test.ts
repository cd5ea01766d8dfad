import { expect } from 'bun:test'
import { counted } from '../../src/ledger/counted.ts'
import { once } from '../stores.ts'

once('one thing is counted in the singular', () => {
  expect([0, 1, 2].map((count) => counted(count, 'transfer'))).toEqual(['0 transfers', '1 transfer', '2 transfers'])
})
