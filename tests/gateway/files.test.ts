import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Files } from '../../src/files/files.ts'
import { startGatewayProcess } from '../server.ts'
import { rawClient, requestHead, until } from '../transport/raw-server.ts'
import { sqlIn, storeIn } from '../stores.ts'
import {
  bearer,
  config,
  FILE_LIMIT,
  gateway,
  keyOf,
  MULTIPART,
  onDisk,
  port,
  QUOTA,
  send,
  upload,
  useFileGateway,
} from './file-gateway.ts'

useFileGateway()

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
