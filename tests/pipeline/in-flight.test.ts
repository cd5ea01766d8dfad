import { expect, test } from 'bun:test'
import { InFlightRequests } from '../../src/pipeline/in-flight.ts'

test('a request that has ended does not count as left when its client closes the connection', () => {
  const requests = new InFlightRequests(0)
  const [ended, open] = [new AbortController(), new AbortController()]
  const [first, second] = [ended, open].map(({ signal }) => requests.enter(signal))
  expect(first!.leave()).toBe(true)
  ended.abort()
  open.abort()
  expect([first!.left, first!.aborted]).toEqual([false, false])
  expect([second!.left, second!.aborted]).toEqual([true, true])
})
