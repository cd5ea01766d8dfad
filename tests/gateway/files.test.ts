import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createReadStream, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import Replicate from 'replicate'
import { Files } from '../../src/files/files.ts'
import { startGateway, startGatewayProcess, type Gateway } from '../server.ts'
import { SmallDisk } from '../small-disk.ts'
import { fault, startS3 } from '../store/s3-server.ts'
import { rawClient, requestHead, until } from '../transport/raw-server.ts'
import { groupOfSqlite, newPostgresFolder, ofSqlite, ON_POSTGRES, once, sqlIn, storeIn } from '../stores.ts'

const MIB = 1024 * 1024
const FILE_LIMIT = MIB
const QUOTA = 3 * MIB
const ACCOUNTS = ['mine', 'theirs', 'sdk', 'anthropic', 'replicate', 'full', 'broken', 'corpus', 'loop']
const keyOf = (account: string): string => `sk-ai-v1-of-account-${account}-0123456789abcdef`
const bearer = (account: string): string => `authorization: Bearer ${keyOf(account)}`
const MULTIPART = 'content-type: multipart/form-data; boundary=b'
const config = (more = ''): string => `
limits: { requestsPerMinute: 100000, file: 1MiB }
files: { quota: 3MiB${ON_POSTGRES ? ', store: folder' : ''} }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
keys: [${ACCOUNTS.map((account) => `{ key: ${keyOf(account)}, account: ${account} }`).join(', ')}]
${more}`

let gateway: Gateway
let port: number
beforeAll(async () => {
  gateway = await startGateway({ config: config() })
  port = Number(new URL(gateway.url).port)
})
afterAll(() => gateway?.stop())

/** The numbers of blobs and of unfinished uploads on the disk of a gateway. */
function onDisk(data = gateway.data): { blobs: number; uploads: number } {
  const root = join(data, 'files')
  const folders = readdirSync(root).filter((name) => name !== 'uploads')
  return {
    blobs: folders.flatMap((name) => readdirSync(join(root, name))).length,
    uploads: readdirSync(join(root, 'uploads')).length,
  }
}

type Answer = { status: number; headers: Headers; text: string; json: Record<string, any> }

async function send(
  method: string,
  path: string,
  {
    key = keyOf('mine'),
    body,
    headers = {},
    url = gateway.url,
  }: { key?: string; body?: FormData | string; headers?: Record<string, string>; url?: string } = {},
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: text.startsWith('{') ? (JSON.parse(text) as Record<string, any>) : {},
  }
}

const form = (
  content: string | Uint8Array<ArrayBuffer>,
  { name = 'a.txt', type = '', ...fields }: Record<string, string> = {},
): FormData => {
  const made = new FormData()
  for (const [field, value] of Object.entries(fields)) made.append(field, value)
  made.append('file', new File([content], name, { type }))
  return made
}

const upload = async (
  content: string | Uint8Array<ArrayBuffer>,
  fields: Record<string, string> = {},
  key = keyOf('mine'),
): Promise<Answer> => send('POST', '/v1/files', { key, body: form(content, fields) })

describe('a file', () => {
  test('a file is uploaded, listed, read and deleted', async () => {
    const created = await upload('# Title\n', {
      purpose: 'assistants',
      name: 'notes.md',
      'expires_after[anchor]': 'created_at',
      'expires_after[seconds]': '3600',
    })
    const { id, created_at } = created.json as { id: string; created_at: number }
    const digest = new Bun.CryptoHasher('sha256').update('# Title\n').digest('hex')
    expect(created.json).toEqual({
      id: expect.stringMatching(/^file-[0-9a-f]{32}$/),
      object: 'file',
      bytes: 8,
      created_at: expect.any(Number),
      expires_at: created_at + 3600,
      filename: 'notes.md',
      purpose: 'assistants',
      status: 'processed',
      status_details: null,
      name: 'notes.md',
      content_type: 'text/markdown',
      size: 8,
      checksums: { sha256: digest },
      etag: digest,
      metadata: {},
      urls: { get: `${gateway.url}/v1/files/${id}` },
    })
    expect(Math.abs(created_at * 1000 - Date.now())).toBeLessThan(60_000)
    expect((await send('GET', `/v1/files/${id}`)).json).toEqual(created.json)
    const content = await send('GET', `/v1/files/${id}/content`)
    expect([
      content.status,
      content.text,
      ...['content-type', 'content-length', 'content-disposition', 'x-content-type-options', 'cache-control'].map(
        (name) => content.headers.get(name),
      ),
    ]).toEqual([
      200,
      '# Title\n',
      'text/markdown',
      '8',
      `attachment; filename="notes.md"; filename*=UTF-8''notes.md`,
      'nosniff',
      'private, no-store',
    ])
    const deleted = await send('DELETE', `/v1/files/${id}`)
    expect([deleted.status, deleted.json]).toEqual([200, { id, object: 'file', deleted: true }])
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/content'],
      ['DELETE', ''],
    ] as const) {
      const gone = await send(method, `/v1/files/${id}${path}`)
      expect([gone.status, gone.json.error.code]).toEqual([404, 'not_found'])
    }
  })

  test('a file is served with the type its bytes show, and a browser runs nothing in it', async () => {
    for (const [content, type, name, seen] of [
      ['<html><script>1</script>', 'image/png', 'x.png', 'text/html'],
      ['<svg xmlns="x" onload="1">', 'image/svg+xml', 'x.svg', 'image/svg+xml'],
      ['Hello', 'text/html', 'x.html', 'text/plain'],
    ] as const) {
      const { json } = await upload(content, { type, name })
      expect(json.content_type).toBe(seen)
      const { headers } = await send('GET', `/v1/files/${json.id}/content`)
      expect([
        headers.get('content-type')?.split(';')[0],
        headers.get('content-disposition')?.split(';')[0],
        headers.get('x-content-type-options'),
        headers.get('content-security-policy'),
      ]).toEqual([seen, 'attachment', 'nosniff', seen === 'text/plain' ? null : "sandbox; default-src 'none'"])
      await send('DELETE', `/v1/files/${json.id}`)
    }
  })

  test('the name of a file is only displayed, never used as a path', async () => {
    for (const [name, shown] of [
      ['../../etc/passwd', 'passwd'],
      ['C:\\dir\\naïve "x".txt', 'naïve "x".txt'],
      ['..', 'unnamed'],
      ['a/', 'unnamed'],
      ['x\u202etxt.exe', 'x\u202etxt.exe'],
      ['😀.txt', '😀.txt'],
      ['%2e%2e%2f', '%2e%2e%2f'],
    ] as const) {
      const { json } = await upload('x', { name })
      expect(json.filename).toBe(shown)
      const { status, headers } = await send('GET', `/v1/files/${json.id}/content`)
      const [, plain, encoded] = /^attachment; filename="([ -~]*)"; filename\*=UTF-8''([\w.~%!-]*)$/.exec(
        headers.get('content-disposition')!,
      )!
      expect([status, plain!.includes('"'), decodeURIComponent(encoded!)]).toEqual([200, false, shown])
      await send('DELETE', `/v1/files/${json.id}`)
    }
  })

  test('a range of a file can be read', async () => {
    const { json } = await upload('0123456789')
    const part = await send('GET', `/v1/files/${json.id}/content`, { headers: { range: 'bytes=2-4' } })
    expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, '234', 'bytes 2-4/10'])
  })

  test('an expired file is answered like one that never existed', async () => {
    const { json } = await upload('x', { 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '3600' })
    await sqlIn(gateway.data, 'UPDATE files SET expires_at = ? WHERE id = ?', Date.now(), json.id)
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/content'],
      ['DELETE', ''],
    ] as const)
      expect((await send(method, `/v1/files/${json.id}${path}`)).status).toBe(404)
    expect((await send('GET', '/v1/files')).text).not.toContain(json.id)
  })

  test('a file deleted during a slow download is read to its end', async () => {
    const content = new Uint8Array(FILE_LIMIT).fill(120)
    const { json } = await upload(content)
    const client = await rawClient(port)
    client.write(
      `GET /v1/files/${json.id}/content HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${keyOf('mine')}\r\n\r\n`,
    )
    await until(() => client.bytes() > 0)
    client.pause()
    expect((await send('DELETE', `/v1/files/${json.id}`)).status).toBe(200)
    expect((await send('GET', `/v1/files/${json.id}/content`)).status).toBe(404)
    client.resume()
    await until(() => client.text().endsWith('x'.repeat(1000)) && client.bytes() >= FILE_LIMIT)
    const length = client.text().indexOf('\r\n\r\n') + 4 + FILE_LIMIT
    expect(client.bytes()).toBe(length)
    client.close()
  })

  test('a file deleted during many downloads is served completely or not at all', async () => {
    const { json } = await upload('x'.repeat(1000))
    const reading = Array.from({ length: 200 }, async (_, index) => {
      await Bun.sleep(index % 10)
      if (index === 100) await send('DELETE', `/v1/files/${json.id}`)
      const { status, text } = await send('GET', `/v1/files/${json.id}/content`)
      return status === 200 ? `200 ${text.length}` : String(status)
    })
    const seen = new Set(await Promise.all(reading))
    expect([...seen].filter((one) => one !== '200 1000' && one !== '404')).toEqual([])
    expect(seen).toContain('404')
  })
})

describe("OpenAI's client", () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-files-sdk-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const client = (): OpenAI => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: keyOf('sdk'), maxRetries: 0 })

  test("OpenAI's client uploads streams, files and bytes, and reads them back", async () => {
    const path = join(folder, 'report.jsonl')
    writeFileSync(path, '{"a":1}\n{"a":2}\n')
    const files = client().files
    const made = [
      await files.create({
        file: createReadStream(path),
        purpose: 'batch',
        expires_after: { anchor: 'created_at', seconds: 86_400 },
      }),
      await files.create({ purpose: 'user_data', file: new File(['%PDF-1.7 x'], 'x.pdf') }),
      await files.create({
        file: await toFile(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'x.png'),
        purpose: 'vision',
      }),
    ]
    expect(made.map(({ filename, purpose, bytes, status }) => [filename, purpose, bytes, status])).toEqual([
      ['report.jsonl', 'batch', 16, 'processed'],
      ['x.pdf', 'user_data', 10, 'processed'],
      ['x.png', 'vision', 8, 'processed'],
    ])
    expect(made[0]!.expires_at).toBe(made[0]!.created_at + 86_400)
    expect(await files.retrieve(made[1]!.id)).toEqual(made[1]!)
    const content = await files.content(made[0]!.id)
    expect(await content.text()).toBe('{"a":1}\n{"a":2}\n')
    expect((await Array.fromAsync(files.list({ purpose: 'vision' }))).map(({ id }) => id)).toEqual([made[2]!.id])
    for (const { id } of made) expect(await files.delete(id)).toEqual({ id, object: 'file', deleted: true })
    expect(await files.retrieve(made[0]!.id).catch((error: unknown) => (error as { status: number }).status)).toBe(404)
  })

  test("OpenAI's client lists all pages", async () => {
    const files = client().files
    const ids: string[] = []
    for (let index = 0; index < 5; index++)
      ids.push((await files.create({ file: new File(['x'], `${index}.txt`), purpose: 'user_data' })).id)
    for (const limit of [1, 2, 5, 100]) {
      const seen: string[] = []
      for await (const { id } of files.list({ limit, order: 'asc' })) {
        seen.push(id)
        if (seen.length > 10) break
      }
      expect([limit, seen.toSorted()]).toEqual([limit, ids.toSorted()])
    }
    const page = await files.list({ limit: 2, order: 'desc' })
    expect([page.data.length, page.hasNextPage()]).toEqual([2, true])
    const wrong = async (query: string): Promise<unknown> => {
      const { status, json } = await send('GET', `/v1/files?${query}`, { key: keyOf('sdk') })
      return [status, json.error.param]
    }
    for (const [query, param] of [
      ['limit=0', 'limit'],
      ['limit=10001', 'limit'],
      ['limit=x', 'limit'],
      ['limit=', 'limit'],
      ['order=up', 'order'],
      ['purpose=none', 'purpose'],
      ['after=file-none', 'after'],
      [`after=${ids[0]}x`, 'after'],
    ])
      expect(await wrong(query!)).toEqual([400, param!])
    const theirs = await upload('x', {}, keyOf('theirs'))
    // A cursor is a position in time, so an id of another account, or one that never existed, is valid.
    const after = async (id: string): Promise<unknown> =>
      (await send('GET', `/v1/files?after=${id}`, { key: keyOf('sdk') })).json
    expect(await after(theirs.json.id)).toEqual(await after(`${theirs.json.id.slice(0, -4)}0000`))
    expect(
      (await send('GET', '/v1/files', { key: keyOf('theirs') })).json.data.map(({ id }: { id: string }) => id),
    ).toEqual([theirs.json.id])
  })
})

test("Anthropic's client uploads, lists, reads and deletes files", async () => {
  const client = new Anthropic({ baseURL: gateway.url, apiKey: keyOf('anthropic'), maxRetries: 0 })
  const { files } = client.beta
  const made = [
    await files.upload({
      file: new File(['%PDF-1.7 x'], 'x.pdf', { type: 'application/pdf' }),
      expires_in_seconds: 7200,
    }),
    await files.upload({ file: new File(['two'], 'two.txt') }),
    await files.upload({ file: new File(['three'], 'three.txt') }),
  ]
  expect({ ...made[0] }).toMatchObject({
    type: 'file',
    id: expect.stringMatching(/^file-/),
    filename: 'x.pdf',
    mime_type: 'application/pdf',
    size_bytes: 10,
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    downloadable: true,
  })
  expect(Date.parse(made[0]!.expires_at!) - Date.parse(made[0]!.created_at)).toBe(7_200_000)
  expect(await files.retrieveMetadata(made[0]!.id)).toMatchObject({ id: made[0]!.id })
  expect(await (await files.download(made[1]!.id)).text()).toBe('two')
  expect((await Array.fromAsync(files.list({ limit: 1 }))).map(({ id }) => id).toSorted()).toEqual(
    made.map(({ id }) => id).toSorted(),
  )
  // As its older clients send it.
  const headers = { 'anthropic-version': '2023-06-01' }
  const first = await send('GET', '/v1/files?limit=2', { key: keyOf('anthropic'), headers })
  const second = await send('GET', `/v1/files?limit=2&after_id=${first.json.last_id}`, {
    key: keyOf('anthropic'),
    headers,
  })
  expect([
    first.json.data.length,
    first.json.has_more,
    second.json.data.length,
    second.json.has_more,
    second.json.next_page,
  ]).toEqual([2, true, 1, false, null])
  expect((await send('GET', '/v1/files?ids=x', { key: keyOf('anthropic'), headers })).json.error).toEqual({
    type: 'invalid_request_error',
    message: 'ids is not supported; use limit, page or after_id',
  })
  expect(await files.delete(made[0]!.id)).toMatchObject({ id: made[0]!.id, type: 'file_deleted' })
  expect(
    await files.retrieveMetadata(made[0]!.id).catch((error: unknown) => (error as { status: number }).status),
  ).toBe(404)
})

test('files can be deleted while they are listed, with any page size', async () => {
  const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: keyOf('loop'), maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: keyOf('loop'), maxRetries: 0 })
  const clear: [
    list: (order: 'asc' | 'desc') => AsyncIterable<{ id: string }>,
    remove: (id: string) => Promise<unknown>,
  ][] = [
    [(order) => openai.files.list({ limit: 2, order }), (id) => openai.files.delete(id)],
    [() => anthropic.beta.files.list({ limit: 2 }), (id) => anthropic.beta.files.delete(id)],
  ]
  for (const [list, remove] of clear) {
    for (const order of ['asc', 'desc'] as const) {
      for (let index = 0; index < 5; index++) await upload('x', {}, keyOf('loop'))
      for await (const { id } of list(order)) await remove(id)
      expect((await send('GET', '/v1/files', { key: keyOf('loop') })).json.data).toEqual([])
    }
  }
})

test("Replicate's client uploads a file with metadata, reads and deletes it", async () => {
  const { files } = new Replicate({ baseUrl: `${gateway.url}/v1`, auth: keyOf('replicate') })
  const made = await files.create(new File(['GIF89a'], 'x.gif'), { shot: 'one' })
  expect(made).toMatchObject({
    name: 'x.gif',
    content_type: 'image/gif',
    size: 6,
    metadata: { shot: 'one' },
    checksums: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    urls: { get: `${gateway.url}/v1/files/${made.id}` },
  })
  expect(await files.get(made.id)).toEqual(made)
  expect(await files.delete(made.id)).toBe(true)
  expect((await files.create(Buffer.from('x'))).metadata).toEqual({})
})

describe('storage quotas', () => {
  test('concurrent uploads never exceed the storage quota of an account', async () => {
    const [key, blobs] = [keyOf('full'), onDisk().blobs]
    const content = new Uint8Array(QUOTA / 10)
    const answers = await Promise.all(Array.from({ length: 20 }, () => upload(content, {}, key)))
    const kept = answers.filter(({ status }) => status === 200)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
    expect(kept.length).toBeLessThanOrEqual(10)
    const { data } = (await send('GET', '/v1/files', { key })).json as { data: { bytes: number }[] }
    expect([data.length, onDisk()]).toEqual([kept.length, { blobs: blobs + kept.length, uploads: 0 }])
    while ((await upload(content, {}, key)).status === 200) continue
    const refused = await upload(content, {}, key)
    expect([refused.json.error.code, refused.headers.get('x-should-retry'), refused.json.error.message]).toEqual([
      'quota_exceeded',
      'false',
      expect.stringContaining(`of ${QUOTA} bytes`),
    ])
    // Deleting a file frees its quota.
    expect((await send('DELETE', `/v1/files/${kept[0]!.json.id}`, { key })).status).toBe(200)
    expect([(await upload(content, {}, key)).status, (await upload('x', {}, keyOf('mine'))).status]).toEqual([200, 200])
  })

  test('an upload whose declared size exceeds the quota is refused before its body is read', async () => {
    for (const [head, status] of [
      [`content-length: ${FILE_LIMIT * 3}`, 413],
      ['content-length: 1000\r\ncontent-encoding: gzip', 415],
      ['transfer-encoding: chunked\r\ncontent-encoding: gzip', 415],
    ] as const) {
      const client = await rawClient(port)
      client.write(requestHead('POST /v1/files', bearer('mine'), MULTIPART, head))
      await until(() => client.text().startsWith(`HTTP/1.1 ${status}`))
      client.close()
    }
    for (const [lines, status] of [
      ['content-type: application/json', 415],
      ['content-type: multipart/form-data', 400],
      ['authorization: Bearer x\r\ncontent-type: multipart/form-data; boundary=b', 401],
    ] as const) {
      const client = await rawClient(port)
      const key = lines.includes('Bearer') ? [] : [bearer('mine')]
      client.write(requestHead('POST /v1/files', ...key, lines, 'content-length: 1000000'))
      await until(() => client.text().startsWith(`HTTP/1.1 ${status}`))
      client.close()
    }
    expect(onDisk().uploads).toBe(0)
  })
})

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

describe('an output', () => {
  test('an output is served to everyone who knows its token, and a browser runs nothing in it', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-files-outputs-'))
    const store = await storeIn(data)
    const files = await Files.open({ store: store.files, folder: data, quotaBytes: 0, outputKeepMs: 3_600_000 })
    const publish = (mediaType: string, text: string): Promise<string> =>
      files.publish('somebody', { mediaType, data: Buffer.from(text) })
    const tokens = [
      await publish('image/png', 'an image'),
      await publish('text/html', '<script>'),
      await publish('image/svg+xml', '<svg>'),
      await publish('text/plain; charset=utf-8', 'words'),
      await publish('image/SVG+XML', '<svg>'),
      await publish('image/png\r\nx-evil: 1', 'an image'),
    ]
    await files.stop()
    await store.close()
    const showing = await startGatewayProcess({ config: config(), data })
    const got = await Promise.all(
      tokens.map(async (token) => {
        const { status, headers, text } = await send('GET', `/v1/outputs/${token}`, {
          url: showing.url,
          key: 'unknown',
        })
        expect([
          headers.get('x-content-type-options'),
          /^private, max-age=(\d+)$/.exec(headers.get('cache-control')!)?.[1],
        ]).toEqual(['nosniff', expect.stringMatching(/^35\d\d$/)])
        return [
          status,
          text,
          headers.get('content-type'),
          headers.get('content-disposition'),
          headers.get('content-security-policy'),
        ]
      }),
    )
    const SANDBOX = "sandbox; default-src 'none'"
    expect(got).toEqual([
      [200, 'an image', 'image/png', 'inline', null],
      [200, '<script>', 'text/html', 'attachment', SANDBOX],
      [200, '<svg>', 'image/svg+xml', 'attachment', SANDBOX],
      [200, 'words', 'text/plain; charset=utf-8', 'inline', null],
      [200, '<svg>', 'image/svg+xml', 'attachment', SANDBOX],
      [200, 'an image', 'application/octet-stream', 'attachment', null],
    ])
    const wrong = await send('GET', `/v1/outputs/${'A'.repeat(43)}`, { url: showing.url })
    expect([wrong.status, wrong.json.error.code]).toEqual([404, 'not_found'])
    await sqlIn(data, 'UPDATE outputs SET expires_at = ?', Date.now())
    const expired = await send('GET', `/v1/outputs/${tokens[0]}`, { url: showing.url })
    expect([expired.status, expired.json]).toEqual([404, wrong.json])
    await showing.stop()
    rmSync(data, { recursive: true })
  })
})

describe('a path', () => {
  test.each([
    '/v1/files/%2e%2e/%2e%2e/sluice.sqlite',
    '/v1/files/..%2f..%2fsluice.sqlite',
    '/v1/files/..%2f..%2fsluice.sqlite/content',
    '/v1/files/%00',
    '/v1/files/%252e%252e',
    '/v1/files/file-;x',
    '//v1/files',
    '/V1/files',
    '/v1/files.',
    '/v1/files/',
    '/v1/files/x/y',
    `/v1/files/${'a'.repeat(8000)}`,
    '/v1/files/x:generateContent',
    '/v1/outputs/..%2f..%2fsluice.sqlite',
    '/v1/outputs/%2e%2e',
    '/v1/outputs/',
    '/v1/outputs',
    '/v1/outputs/%00',
    `/v1/outputs/${'a'.repeat(43)}`,
    '/v1/outputs/x/content',
    '/v1/files/%zz',
    '/v1/files/uploads/content',
    '/v1/files/file-%ff/content',
  ])('the path %s finds nothing', async (path) => {
    for (const [method, statuses] of [
      ['GET', [404]],
      ['DELETE', [404, 405]],
      ['HEAD', [404, 405]],
      ['OPTIONS', [404, 405]],
      ['PUT', [404, 405]],
      ['POST', path.endsWith(':generateContent') ? [400] : [404, 405]],
    ] as const) {
      const client = await rawClient(port)
      const headers = ['x-http-method-override: GET', 'content-length: 0', 'connection: close']
      client.write(requestHead(`${method} ${path}`, bearer('mine'), ...headers))
      await until(() => client.closed() || client.text().includes('\r\n\r\n'))
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(client.text())?.[1])
      expect([method, status, (statuses as readonly number[]).includes(status)]).toEqual([method, status, true])
      client.close()
    }
  })
})

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

describe('memory', () => {
  const rssOf = (pid: number): number =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

  /** The most by which the memory of a server grows, in MiB, while one client uploads a file and another reads it. */
  async function growth(mebibytes: number, framing: string, data?: string): Promise<number> {
    const big = await startGatewayProcess({
      ...(data === undefined ? {} : { data }),
      config: config()
        .replace(', store: folder', data === undefined ? ', store: folder' : '')
        .replace('file: 1MiB', 'file: 1GiB')
        .replace('quota: 3MiB', 'quota: 2GiB')
        .concat('store: { quotaWithoutCredit: 2GiB }\n'),
    })
    try {
      await send('GET', '/v1/files', { url: big.url })
      const before = rssOf(big.pid)
      let most = before
      const timer = setInterval(() => {
        most = Math.max(most, rssOf(big.pid))
      }, 10)
      const { hostname, port } = new URL(big.url)
      const client = Bun.spawn(
        [
          process.execPath,
          join(import.meta.dir, 'uploader.ts'),
          hostname,
          port,
          keyOf('mine'),
          String(mebibytes),
          framing,
        ],
        { stdout: 'pipe', stderr: 'inherit' },
      )
      const answer = await new Response(client.stdout).text()
      expect(answer).toContain(`"bytes":${mebibytes * MIB}`)
      const id = /"id":"(file-\w+)"/.exec(answer)?.[1]
      const content = await fetch(`${big.url}/v1/files/${id}/content`, {
        headers: { authorization: `Bearer ${keyOf('mine')}` },
      })
      let read = 0
      for await (const piece of content.body!) read += piece.length
      expect(read).toBe(mebibytes * MIB)
      clearInterval(timer)
      return most - before
    } finally {
      await big.stop()
    }
  }

  const isLinux = process.platform === 'linux'
  once.skipIf(!isLinux).each([
    [64, 'length'],
    [240, 'chunked'],
  ])(
    'memory grows by less than 50 MiB during an upload of %i MiB, %s',
    async (mebibytes, framing) => {
      expect(await growth(mebibytes, framing)).toBeLessThan(50)
    },
    60_000,
  )

  once.skipIf(!isLinux)(
    'memory grows by less than half of an upload of 400 MiB into PostgreSQL',
    async () => {
      const data = newPostgresFolder()
      try {
        expect(await growth(400, 'chunked', data)).toBeLessThan(200)
        expect(existsSync(join(data, 'files'))).toBe(false)
      } finally {
        rmSync(data, { recursive: true, force: true })
      }
    },
    120_000,
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
