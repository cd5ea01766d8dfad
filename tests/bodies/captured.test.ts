import { expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import type { CaptureMode } from '../../src/config/terms.ts'
import type { ByteSource } from '../../src/http/call.ts'
import { BodyWriter } from '../../src/pipeline/bodies/body-writer.ts'
import { CapturedRequest } from '../../src/pipeline/bodies/captured-request.ts'
import { CaptureRules } from '../../src/pipeline/bodies/capture-rules.ts'
import type { Store } from '../../src/store/store.ts'

const { capture } = readConfig('', 'sluice.yaml', {})

/** The mode in force with these switches, which were made when more was allowed. */
async function modeWith(
  most: CaptureMode,
  byDefault: CaptureMode,
  switches: Record<string, CaptureMode>,
): Promise<string> {
  const rows = Object.entries(switches).map(([name, mode]) => ({ name, value: JSON.stringify({ mode, until: null }) }))
  const store = { setSettings: { list: async () => rows }, watch() {} } as unknown as Store
  const rules = await CaptureRules.open(store, { ...capture, most, default: byDefault }, Date.now)
  return rules.modeOf({ keyId: 'k', accountId: 'a' })
}

test.each([
  ['all', 'off', {}, 'off'],
  ['all', 'errors', {}, 'errors'],
  ['all', 'off', { a: 'all' }, 'all'],
  ['all', 'off', { a: 'all', k: 'off' }, 'off'],
  ['all', 'all', { k: 'errors', other: 'all' }, 'errors'],
  ['errors', 'all', {}, 'errors'],
  ['errors', 'off', { k: 'all' }, 'errors'],
] as const)(
  'with capture.most %s and capture.default %s, the switches %j give the mode %s',
  async (most, byDefault, switches, mode) => {
    expect(await modeWith(most, byDefault, switches)).toBe(mode)
  },
)

const source = (text: string): ByteSource => {
  const chunks = [Buffer.from(text)]
  return { read: async () => chunks.shift(), cancel() {} }
}

test('of two calls at a time, that which serves is kept', async () => {
  const writer = new BodyWriter(capture)
  const terms = { id: '1', accountId: 'a', keyId: 'k', errorsOnly: false, expiresAt: 0 }
  const request = new CapturedRequest(terms, new Headers(), writer, () => {})
  const received = ['first', 'second'].map((name) => {
    const call = request.call(`http://${name}/v1?key=secret`, {}, `to ${name}`)
    return call.received({ status: 200, headers: new Headers(), body: source(`from ${name}`) })
  })
  for (const { body } of received) await body.read()
  request.servedBy(received[0]!)
  const parts = await request.parts()
  expect(parts.map(({ name, url, pieces }) => [name, url, String(Buffer.from(pieces[0]!.data as Uint8Array))])).toEqual(
    [
      ['provider_request', 'http://first/v1', 'to first'],
      ['provider_answer', null, 'from first'],
    ],
  )
  request.free()
  expect(writer.take(64 * 2 ** 20)).toBe(true)
})
