import { expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { failUnasked } from '../../src/pipeline/close.ts'
import { InFlightRequests } from '../../src/pipeline/in-flight.ts'

test('a record has the error of a request without an attempt, unless its client left or the server stopped', () => {
  const error = new GatewayError('upstream_rate_limited', 'All endpoints are over their limits.')
  const unaskedOf = (end: (client: AbortController, requests: InFlightRequests) => void): unknown => {
    const [client, requests] = [new AbortController(), new InFlightRequests(0)]
    const inFlight = requests.enter(client.signal)
    end(client, requests)
    const meter: { unasked?: { error?: string } } = {}
    failUnasked({ inFlight, open: { meter } } as never, error)
    return meter.unasked?.error
  }
  expect(unaskedOf(() => {})).toBe('upstream_rate_limited')
  expect(unaskedOf((client) => client.abort())).toBeUndefined()
  expect(unaskedOf((_, requests) => void requests.drain(0, error))).toBeUndefined()
})
