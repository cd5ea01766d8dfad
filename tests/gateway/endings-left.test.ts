import { describe, expect, test } from 'bun:test'
import { expectBookRight } from '../audit.ts'
import { until } from '../transport/raw-server.ts'
import { COUNTED, RESPONSE_PIECES, type Script } from './scripted.ts'
import {
  ask,
  expectEnding,
  INPUT,
  modelOf,
  provider,
  readUntil,
  RECEIVED,
  receivedUsage,
  streamedWays,
  useProvider,
  ways,
  withGateway,
  type Expected,
  type Way,
} from './ending-ways.ts'

useProvider()

describe('generations whose client left, with a provider that is cancelled then', () => {
  const here = withGateway({ timeouts: { clientLeft: '0s' } })

  /** Leaves when the provider was called and, if a text is given, when that text was received. */
  async function leaves(
    way: Way,
    script: Script,
    seen: string | undefined,
    expected: Omit<Expected, 'ending'>,
  ): Promise<void> {
    const before = await here.books.balance()
    const begun = performance.now()
    const requests = provider.requests.length
    const leave = new AbortController()
    const answer = ask(here.gateway, way, modelOf(way, script), leave.signal)
    void answer.catch(() => {})
    await until(() => provider.requests.length > requests)
    if (seen !== undefined) await readUntil(await answer, seen)
    leave.abort()
    const [record, ...others] = await here.books.fresh(1)
    expect(others).toEqual([])
    // The output of an answer in one piece is estimated by its time, at 50 tokens a second.
    const completion = way.stream ? expected.usage.completion : record!.usage.outputTokens
    expectEnding(record!, way, { ending: 'client-left', ...expected, usage: { ...expected.usage, completion } })
    expect(completion * 20).toBeLessThanOrEqual(performance.now() - begun + 20 + expected.usage.completion * 20)
    expect(before - (await here.books.balance())).toBe(record!.bill)
    await here.books.expectNothingHeld()
  }

  test.each(ways)('a client that leaves before the response head is recorded: %s', (_, way) =>
    leaves(way, 'silent', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(streamedWays)('a client that leaves after the response head is recorded: %s', (_, way) =>
    leaves(way, 'silent-after-head', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(ways.filter(([, { stream }]) => !stream))(
    'a client that leaves in mid-response is recorded: %s',
    (_, way) => leaves(way, 'silent-midway', undefined, { usage: { prompt: INPUT, completion: 0 }, estimated: true }),
  )
  test.each(streamedWays)('a client that leaves in mid-stream is recorded: %s', (_, way) =>
    leaves(way, 'silent-midway', 'three', { usage: receivedUsage(way), estimated: true }),
  )
  // The provider has reported its usage, but not the end that makes it final.
  test.each(streamedWays)('a client that leaves before the last frame is recorded: %s', (_, way) =>
    leaves(way, 'silent-at-last', 'three', {
      usage: receivedUsage(way, RESPONSE_PIECES[way.provider].early === undefined ? RECEIVED : COUNTED.completion),
      estimated: true,
    }),
  )

  test('the book balances afterwards', () => expectBookRight(here.gateway.data))
})
