import Anthropic from '@anthropic-ai/sdk'
import { afterAll, describe, expect, test } from 'bun:test'
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import Replicate from 'replicate'
import { gateway, keyOf, send, upload, useFileGateway } from './file-gateway.ts'

useFileGateway()

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
