import { afterAll, expect, test } from 'bun:test'
import { startGateway, startGatewayProcess } from '../server.ts'
import { SmallDisk } from '../small-disk.ts'
import { fault, startS3 } from '../store/s3-server.ts'
import { groupOfSqlite } from '../stores.ts'
import { config, form, keyOf, MIB, onDisk, send } from './file-gateway.ts'

groupOfSqlite('disk')('a disk that is full', async () => {
  const disk = await SmallDisk.open(6)
  afterAll(() => disk?.close())
  test.skipIf(disk === undefined)(
    'a full disk refuses an upload, keeps nothing of it, and accepts the next one',
    async () => {
      const small = disk!
      const gateway = await startGatewayProcess({
        disk: small,
        config: config()
          .replace('file: 1MiB', 'file: 100MiB')
          .replace('quota: 3MiB', 'quota: 1GiB')
          .concat('store: { reserve: 0B, quotaWithoutCredit: 1GiB }\n'),
      })
      const files = `/proc/${gateway.pid}/root${small.path}`
      try {
        for (let times = 0; times < 3; times++) {
          const refused = await send('POST', '/v1/files', { url: gateway.url, body: form(new Uint8Array(8 * MIB)) })
          expect([refused.status, refused.json.error.code, refused.json.error.message]).toEqual([
            503,
            'store_unavailable',
            'The file store is unavailable: its disk is full; try again.',
          ])
          expect(onDisk(files)).toEqual({ blobs: 0, uploads: 0 })
        }
        expect((await send('POST', '/v1/files', { url: gateway.url, body: form(new Uint8Array(MIB)) })).status).toBe(
          200,
        )
        expect(onDisk(files)).toEqual({ blobs: 1, uploads: 0 })
      } finally {
        await gateway.stop()
      }
    },
    20_000,
  )
})

test('files in S3 are stored, read in parts and deleted, and refused while the bucket is away', async () => {
  const s3 = startS3()
  const own = config().replace(/files: \{[^}]*\}/, 'files: { quota: 3MiB, store: "s3://files/p" }')
  const cloud = await startGateway({ config: own, env: s3.env })
  const headers = { authorization: `Bearer ${keyOf('mine')}` }
  const upload = (): Promise<Response> => {
    const body = new FormData()
    body.set('purpose', 'user_data')
    body.set('file', new File(['The tide turns.'], 'tide.txt'))
    return fetch(`${cloud.url}/v1/files`, { method: 'POST', headers, body })
  }
  try {
    const { id } = (await (await upload()).json()) as { id: string }
    expect([...s3.objects.keys()].filter((key) => key.endsWith('/0')).length).toBe(1)
    const url = `${cloud.url}/v1/files/${id}`
    expect(await (await fetch(`${url}/content`, { headers: { ...headers, range: 'bytes=4-7' } })).text()).toBe('tide')
    const named = (): Promise<Response> =>
      fetch(`${cloud.url}/v1/responses`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'sandbox/responses',
          input: [{ role: 'user', content: [{ type: 'input_file', file_id: id }] }],
        }),
      })
    const read = (): Promise<Response> => fetch(`${url}/content`, { headers })
    for (const [status, code, seconds, again, message] of [
      [500, 'InternalError', '5', 'true', 'does not answer as it should (InternalError); try again.'],
      [403, 'AccessDenied', '60', 'false', 'refuses the request (AccessDenied). The operator of this server has to'],
    ] as const) {
      s3.failure = () => fault(status, code)
      for (const refused of [await read(), await upload(), await named()]) {
        const { headers: sent } = refused
        expect([refused.status, sent.get('retry-after'), sent.get('x-should-retry'), await refused.text()]).toEqual([
          ...[503, seconds, again],
          expect.stringContaining(message),
        ])
      }
    }
    s3.failure = undefined
    expect((await fetch(url, { method: 'DELETE', headers })).status).toBe(200)
    expect([...s3.objects.keys()].filter((key) => key.endsWith('/0'))).toEqual([])
  } finally {
    await cloud.stop()
    await s3.stop()
  }
})
