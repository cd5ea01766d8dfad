import { expect, spyOn, test } from 'bun:test'
import { readHeavyAnswer } from '../../src/pipeline/heavy/answer.ts'
import { protocols } from '../../src/protocols/index.ts'
import { workers } from '../../src/worker/pool.ts'
import { contextOf } from '../matrix/routes.ts'

test('a long response waits for a process in the turn of its account', async () => {
  const run = spyOn(workers, 'run').mockRejectedValue(new Error('no process'))
  try {
    const generation = { open: { request: { accountId: 'acct_1' }, meter: {} }, route: { hooks: {} } }
    const upstream = {
      protocol: protocols.messages,
      endpoint: { target: { quirks: {} } },
      transforms: [],
      context: contextOf('chat.completions'),
      sameProtocol: false,
    }
    expect(await readHeavyAnswer(generation as never, upstream as never, '{}').catch(String)).toBe('Error: no process')
    expect(run.mock.calls.map(([{ accountId }]) => accountId)).toEqual(['acct_1'])
  } finally {
    run.mockRestore()
  }
})
