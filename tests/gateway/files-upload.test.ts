import { describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGatewayProcess } from '../server.ts'
import { rawClient, requestHead, until } from '../transport/raw-server.ts'
import { ofSqlite } from '../stores.ts'
import {
  bearer,
  config,
  FILE_LIMIT,
  form,
  keyOf,
  MULTIPART,
  onDisk,
  port,
  send,
  upload,
  useFileGateway,
} from './file-gateway.ts'

useFileGateway()

describe('an upload', () => {
  const b = (parts: string[], boundary = 'b'): string =>
    `${parts.map((part) => `--${boundary}\r\n${part}\r\n`).join('')}--${boundary}--\r\n`
  const filePart = (content: string, head = 'name="file"; filename="x.txt"'): string =>
    `Content-Disposition: form-data; ${head}\r\n\r\n${content}`
  const fieldPart = (name: string, value: string): string =>
    `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`
  const FILE = filePart('hello')

  /** Sends a body unchanged, with its length or in chunks, and returns the response. */
  async function raw(
    body: string,
    { type = 'multipart/form-data; boundary=b', chunked = false, key = keyOf('corpus') } = {},
  ): Promise<{ status: number; text: string }> {
    const client = await rawClient(port)
    const bytes = Buffer.from(body, 'latin1')
    const framing = chunked ? 'transfer-encoding: chunked' : `content-length: ${bytes.length}`
    client.write(requestHead('POST /v1/files', `authorization: Bearer ${key}`, `content-type: ${type}`, framing))
    await client.writeAll(
      !chunked ? body : body === '' ? '0\r\n\r\n' : `${bytes.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    )
    await until(() => client.closed() || /\r\n\r\n[^]*\}$/.test(client.text()))
    client.close()
    return {
      status: Number(/^HTTP\/1\.1 (\d+)/.exec(client.text())?.[1]),
      text: client.text().split('\r\n\r\n').slice(1).join('\r\n\r\n'),
    }
  }

  const BAD: [string, string, { type?: string; status?: number; chunkedStatus?: number; says: string }][] = [
    ['no boundary', b([FILE]), { type: 'multipart/form-data', says: 'must name one boundary' }],
    [
      'a boundary of 71 characters',
      b([FILE], 'b'.repeat(71)),
      { type: `multipart/form-data; boundary=${'b'.repeat(71)}`, says: 'must name one boundary' },
    ],
    ['another boundary', b([FILE], 'c'), { says: 'closing boundary' }],
    [
      '10000 parts',
      b([...Array.from({ length: 10_000 }, () => fieldPart('type', 'x')), FILE]),
      { says: 'type: must be sent only once' },
    ],
    [
      '10000 files',
      b(Array.from({ length: 10_000 }, () => FILE)),
      { says: 'file: must be the only file of the upload' },
    ],
    ['no file', b([fieldPart('purpose', 'batch')]), { says: 'file: is required' }],
    ['nothing', b([]), { says: 'file: is required' }],
    ['an empty body', '', { says: 'closing boundary' }],
    ['two files', b([FILE, FILE]), { says: 'must be the only file of the upload' }],
    [
      'file and content',
      b([FILE, filePart('x', 'name="content"; filename="x"')]),
      { says: 'must be the only file of the upload' },
    ],
    ['a file that is a text', b([fieldPart('file', 'hello')]), { says: 'with a filename' }],
    ['an empty file', b([filePart('')]), { says: 'must not be empty' }],
    ['a NUL in the name', b([filePart('x', 'name="file"; filename="a\0b"')]), { says: 'header that is malformed' }],
    [
      'an encoded NUL in the name',
      b([filePart('x', 'name="file"; filename*=UTF-8\'\'a%00b')]),
      { says: 'without control characters' },
    ],
    [
      'a name of 10 kB',
      b([filePart('x', `name="file"; filename="${'a'.repeat(10_000)}"`)]),
      { says: 'at most 255 characters' },
    ],
    [
      'a name of 20 kB',
      b([filePart('x', `name="file"; filename="${'a'.repeat(20_000)}"`)]),
      { says: 'headers of a part' },
    ],
    [
      'a multipart in a part',
      b([
        'Content-Disposition: form-data; name="file"; filename="x"\r\n' +
          `Content-Type: multipart/mixed; boundary=c\r\n\r\n${b([FILE], 'c')}`,
      ]),
      { says: 'must not be multipart' },
    ],
    [
      'base64',
      b([
        'Content-Disposition: form-data; name="file"; filename="x"\r\n' +
          'Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=',
      ]),
      { says: 'must not be encoded' },
    ],
    [
      'a thousand headers',
      b([`${Array.from({ length: 1000 }, (_, index) => `x-${index}: 1\r\n`).join('')}${FILE}`]),
      { says: 'header' },
    ],
    ['a header of 1 MB', b([`x-a: ${'a'.repeat(1_000_000)}\r\n${FILE}`]), { says: 'headers of a part' }],
    ['a preamble of 1.5 MB', `${'x'.repeat(1_500_000)}\r\n${b([FILE])}`, { says: 'outside its parts' }],
    [
      'a preamble of 10 MB',
      `${'x'.repeat(10_000_000)}\r\n${b([FILE])}`,
      { status: 413, chunkedStatus: 400, says: 'at most' },
    ],
    ['an epilogue of 1 MB', `${b([FILE])}${'x'.repeat(1_000_000)}`, { says: 'outside its parts' }],
    ['line feeds', b([FILE]).replaceAll('\r\n', '\n'), { says: 'end with CR and LF' }],
    [
      'a single line feed in a head',
      b(['Content-Disposition: form-data; name="file"; filename="x"\nx: y\r\n\r\nhello']),
      { says: 'header that is malformed' },
    ],
    [
      'a folded header',
      b(['Content-Disposition: form-data;\r\n name="file"; filename="x"\r\n\r\nhello']),
      { says: 'header that is malformed' },
    ],
    ['a boundary that goes on', b([FILE]).replace('--b\r\n', '--bb\r\n'), { says: 'nothing else' }],
    ['a boundary inside', b([filePart('one\r\n--bb\r\ntwo')]), { says: 'nothing else' }],
    ['a part that never ends', `--b\r\n${FILE}`, { says: 'closing boundary' }],
    [
      'a file over the limit',
      b([filePart('x'.repeat(FILE_LIMIT + 1))]),
      { status: 413, says: `must be at most ${FILE_LIMIT} bytes` },
    ],
    ['a wrong purpose', b([fieldPart('purpose', 'fun'), FILE]), { says: 'purpose: must be one of assistants, batch' }],
    [
      'a purpose twice',
      b([fieldPart('purpose', 'batch'), fieldPart('purpose', 'vision'), FILE]),
      { says: 'purpose: must be sent only once' },
    ],
    ['a purpose that is not UTF-8', b([fieldPart('purpose', '\xff'), FILE]), { says: 'purpose: must be UTF-8' }],
    ['a purpose of 1 MB', b([fieldPart('purpose', 'x'.repeat(1_000_000)), FILE]), { says: 'purpose: must be at most' }],
    [
      'a field that there is not',
      b([fieldPart('expires_afer[seconds]', '3600'), FILE]),
      { says: 'is not a field of an upload' },
    ],
    ['a field called constructor', b([fieldPart('constructor', 'x'), FILE]), { says: 'is not a field of an upload' }],
    [
      'seconds without an anchor',
      b([fieldPart('expires_after[seconds]', '3600'), FILE]),
      { says: 'expires_after: requires both anchor and seconds' },
    ],
    [
      'another anchor',
      b([fieldPart('expires_after[anchor]', 'last_active_at'), FILE]),
      { says: "must be 'created_at'" },
    ],
    ...['3599', '2592001', '-1', '1e4', '3600.5', 'NaN', '', '99999999999999999999'].map(
      (seconds): [string, string, { says: string }] => [
        `${seconds} seconds`,
        b([fieldPart('expires_after[anchor]', 'created_at'), fieldPart('expires_after[seconds]', seconds), FILE]),
        { says: 'from 3600 to 2592000' },
      ],
    ),
    [
      'metadata that is no object',
      b([fieldPart('metadata', '[1]'), FILE]),
      { says: 'metadata: must be a JSON object' },
    ],
    [
      'metadata that is deep',
      b([fieldPart('metadata', `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`), FILE]),
      { says: 'metadata: must be a JSON object' },
    ],
  ]

  test.each(BAD)(
    'an upload with %s is refused and leaves nothing on disk',
    async (_, body, { type, status = 400, chunkedStatus = status, says }) => {
      const before = onDisk()
      for (const chunked of [false, true]) {
        const answer = await raw(body, { chunked, ...(type === undefined ? {} : { type }) })
        expect([answer.status, answer.text]).toEqual([chunked ? chunkedStatus : status, expect.stringContaining(says)])
      }
      expect(onDisk()).toEqual({ ...before, uploads: 0 })
      expect((await send('GET', '/v1/files', { key: keyOf('corpus') })).json.data).toEqual([])
    },
  )

  test('an upload may have fields in any order, a long boundary, a preamble and folder names', async () => {
    const boundary = `'()+_,-./:=?${'b'.repeat(58)}`
    const key = keyOf('corpus')
    for (const parts of [
      [FILE, fieldPart('purpose', 'evals')],
      [fieldPart('purpose', 'evals'), FILE],
      [filePart('hello', 'filename="../../x.txt"; name="file"'), fieldPart('purpose', 'evals')],
    ]) {
      for (const chunked of [false, true]) {
        const { status, text } = await raw(`a preamble\r\n${b(parts, boundary)}an epilogue`, {
          type: `multipart/form-data; boundary="${boundary}"`,
          chunked,
          key,
        })
        expect([status, JSON.parse(text)]).toEqual([
          200,
          expect.objectContaining({ filename: 'x.txt', purpose: 'evals', bytes: 5 }),
        ])
        await send('DELETE', `/v1/files/${(JSON.parse(text) as { id: string }).id}`, { key })
      }
    }
    // A body with one byte per packet.
    const client = await rawClient(port)
    const body = b([FILE])
    client.write(
      requestHead('POST /v1/files', `authorization: Bearer ${key}`, MULTIPART, `content-length: ${body.length}`),
    )
    for (const character of body) {
      client.write(character)
      await Bun.sleep(0)
    }
    await until(() => client.text().includes('"bytes":5'))
    client.close()
    const { data } = (await send('GET', '/v1/files', { key })).json as { data: { id: string }[] }
    for (const { id } of data) await send('DELETE', `/v1/files/${id}`, { key })
  }, 15_000)

  test('an upload that breaks off at 99 % leaves nothing on disk and uses no quota', async () => {
    const before = onDisk()
    const key = keyOf('broken')
    const body = b([filePart('x'.repeat(FILE_LIMIT))])
    for (const chunked of [false, true]) {
      // More uploads than the quota has space for.
      for (let times = 0; times < 5; times++) {
        const client = await rawClient(port)
        const framing = chunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`
        client.write(requestHead('POST /v1/files', `authorization: Bearer ${key}`, MULTIPART, framing))
        await client.writeAll(
          (chunked ? `${body.length.toString(16)}\r\n` : '') + body.slice(0, Math.floor(body.length * 0.99)),
        )
        await until(() => onDisk().uploads === 1)
        client.close()
        await until(() => onDisk().uploads === 0)
      }
    }
    expect(onDisk()).toEqual(before)
    const sent = await Promise.all([1, 2, 3].map(() => upload(new Uint8Array(FILE_LIMIT), {}, key)))
    expect(sent.map(({ status }) => status)).toEqual([200, 200, 200])
  }, 20_000)

  test('an upload in flight when the server is stopped is completed', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-files-stopped-'))
    const stopped = await startGatewayProcess({ config: config(), data })
    const client = await rawClient(Number(new URL(stopped.url).port))
    const body = b([filePart('x'.repeat(5000))])
    const head = requestHead('POST /v1/files', bearer('mine'), MULTIPART, `content-length: ${body.length}`)
    client.write(head + body.slice(0, 4000))
    await until(() => onDisk(data).uploads === 1)
    stopped.kill('SIGTERM')
    // Until it refuses new requests, it has not received the signal.
    while (
      await fetch(`${stopped.url}/readyz`).then(
        ({ status }) => status !== 503,
        () => false,
      )
    )
      await Bun.sleep(5)
    // Longer than idle connections are kept.
    await Bun.sleep(1_500)
    client.write(body.slice(4000))
    await until(() => client.text().includes('"bytes":5000'))
    expect(await stopped.exited).toBe(0)
    expect(onDisk(data)).toEqual({ blobs: 1, uploads: 0 })
    await stopped.stop()
    rmSync(data, { recursive: true })
  }, 20_000)

  ofSqlite('folder')(
    'an upload in flight when the process is killed leaves nothing after the next start',
    async () => {
      const data = mkdtempSync(join(tmpdir(), 'sluice-files-killed-'))
      const first = await startGatewayProcess({ config: config(), data })
      const kept = await send('POST', '/v1/files', { body: form('kept'), url: first.url })
      const client = await rawClient(Number(new URL(first.url).port))
      const head = requestHead('POST /v1/files', bearer('mine'), MULTIPART, 'transfer-encoding: chunked')
      client.write(`${head}1000\r\n${`--b\r\n${filePart('')}`.padEnd(4096, 'x')}\r\n`)
      await until(() => onDisk(data).uploads === 1)
      // A blob that was moved to its place but not stored in the database.
      const orphan = join(data, 'files', 'aa', 'a'.repeat(32))
      await Bun.write(orphan, 'left')
      await first.stop()
      expect(onDisk(data)).toEqual({ blobs: 2, uploads: 1 })
      const second = await startGatewayProcess({ config: config(), data })
      await until(() => !existsSync(orphan))
      expect(onDisk(data)).toEqual({ blobs: 1, uploads: 0 })
      expect((await send('GET', `/v1/files/${kept.json.id}/content`, { url: second.url })).text).toBe('kept')
      await second.stop()
      rmSync(data, { recursive: true })
    },
    20_000,
  )
})
