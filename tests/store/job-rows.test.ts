import { describe, expect } from 'bun:test'
import { mergedJobs, windowOf } from '../../src/store/job-rows.ts'
import { once } from '../stores.ts'

describe('a page of jobs', () => {
  once('has those of both kinds, the newest first', () => {
    const whole = { end: undefined }
    const found = [
      { ids: ['9', '5', '1'], ...whole },
      { ids: ['7'], ...whole },
    ]
    expect(mergedJobs(found, 4)).toEqual({ ids: ['9', '7', '5', '1'], next: null })
    expect(mergedJobs(found, 3)).toEqual({ ids: ['9', '7', '5'], next: '5' })
  })

  once('ends where one kind was not looked at any further', () => {
    const found = [
      { ids: ['9'], end: '6' },
      { ids: ['8', '4'], end: undefined },
    ]
    expect(mergedJobs(found, 4)).toEqual({ ids: ['9', '8'], next: '6' })
    expect(mergedJobs([{ ids: [], end: '6' }], 4)).toEqual({ ids: [], next: '6' })
  })

  once('looks at more than it has where only some keys count', () => {
    const asked = { accountIds: ['a'], keyIds: [], openIds: [], now: 0 }
    expect(windowOf({ ...asked, ownAccountIds: [] }, 50)).toEqual({ rows: 51, accountIds: ['a'] })
    expect(windowOf({ ...asked, ownAccountIds: ['a', 'b'] }, 50)).toEqual({ rows: 2_000, accountIds: ['a', 'b'] })
    expect(windowOf({ openIds: [], ownAccountIds: [], now: 0 }, 50)).toEqual({ rows: 51 })
  })
})
