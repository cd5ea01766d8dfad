import { describe, expect, test } from 'bun:test'
import { until } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import {
  fetching,
  gateway,
  idOf,
  inline,
  KEY_OF_ANOTHER,
  mediaIn,
  never,
  PARTS,
  PDF,
  PNG,
  provider,
  received,
  refusal,
  send,
  site,
  slow,
  useMediaGateway,
  type Destination,
} from './media-gateway.ts'

useMediaGateway({ fetches: true })

describe('URLs', () => {
  const answer = async (part: object, destination: Destination): Promise<string> => {
    const before = provider.requests.length
    const response = await send(part, destination)
    if (response.status !== 200) {
      const { status, message, param } = await refusal(response)
      expect(provider.requests.length).toBe(before)
      return `${status} ${param} ${message}`
    }
    await response.text()
    return received().text.includes(`127.0.0.1:${site.port}`) ? 'passed on' : mediaIn(received().body).join()
  }

  for (const protocol of PROTOCOLS) {
    test.each(['image', 'file'] as const)(
      `${protocol}: a URL of a media type (%s) is passed on, fetched or refused`,
      async (kind) => {
        const part = PARTS[protocol].url(`http://127.0.0.1:${site.port}/a.${kind === 'image' ? 'png' : 'pdf'}`, kind)
        const id = idOf(protocol)
        const param = PARTS[protocol].param('url', kind)
        expect(await answer(part, { protocol, model: `${id}-fetching/metered` })).toBe('passed on')
        expect(await answer(part, { protocol, model: `${id}-fetching/metered`, at: fetching })).toBe('passed on')
        expect(await answer(part, { protocol, model: `${id}-default/metered` })).toBe('passed on')
        expect(
          await answer(PARTS[protocol].url('http://169.254.169.254/a', kind), {
            protocol,
            model: `${id}-default/metered`,
          }),
        ).toStartWith(`400 ${param} ${param}: must be a public`)
        expect(await answer(part, { protocol, model: `${id}-default/metered`, at: fetching })).toBe(
          kind === 'image' ? inline('image/png', PNG) : inline('application/pdf', PDF),
        )
        expect(await answer(part, { protocol, model: `${id}/metered`, at: fetching })).toBe(
          kind === 'image' ? inline('image/png', PNG) : inline('application/pdf', PDF),
        )
        expect(await answer(part, { protocol, model: `${id}/metered` })).toMatch(
          new RegExp(`^400 ${param.replace(/[[\].]/g, '\\$&')} .*does not fetch URLs.*fetch\\.requestUrls`),
        )
      },
    )

    test(`${protocol}: fetched content is checked, and a failed fetch is refused with its path`, async () => {
      const param = PARTS[protocol].param('url', 'image')
      const ask = (url: string): Promise<string> =>
        answer(PARTS[protocol].url(url, 'image'), { protocol, model: `${idOf(protocol)}/metered`, at: fetching })
      expect(await ask(`http://127.0.0.1:${site.port}/page`)).toStartWith(`400 ${param} ${param}: is text/html`)
      expect(await ask(`http://127.0.0.1:${site.port}/empty`)).toStartWith(`400 ${param} ${param}: is empty`)
      expect(await ask(`http://127.0.0.1:${site.port}/none`)).toStartWith(`400 ${param} ${param}: `)
      for (const url of [
        'http://127.0.0.1:1/',
        'http://169.254.169.254/latest',
        'http://localhost/',
        'http://user:pass@example.com/',
        'ftp://example.com/a.png',
        'file:///etc/passwd',
        'http://[::1]/',
      ])
        expect(await ask(url)).toStartWith(`400 ${param} ${param}: `)
    })

    test(`${protocol}: Google's own URIs are sent to generateContent providers only`, async () => {
      for (const url of ['gs://bucket/a.png', 'https://www.youtube.com/watch?v=x', 'https://youtu.be/x']) {
        const part = PARTS[protocol].url(url, 'image')
        for (const at of [gateway, fetching]) {
          const response = await send(part, { protocol, model: 'own-gemini/metered', at })
          expect(response.status, await response.text()).toBe(200)
          expect(received().text).toContain(url)
          expect(await answer(part, { protocol, model: 'own-chat/metered', at })).toMatch(/^400 .*generateContent/)
        }
      }
    })
  }

  for (const protocol of PROTOCOLS)
    test(`${protocol}: gs:// objects are named only below the buckets that the operator lists`, async () => {
      const ask = async (url: string, model = 'own-gemini/metered'): Promise<string> => {
        const response = await send(PARTS[protocol].url(url, 'image'), { protocol, model })
        return `${response.status} ${await response.text()}`
      }
      for (const url of ['gs://bucket/a.png', 'GS://bucket/b/c.png', 'gs://shared/public/a.png']) {
        expect(await ask(url)).toStartWith('200 ')
        expect(received().text).toContain(url)
      }
      const sent = provider.requests.length
      for (const url of [
        'gs://bucket-2/a.png',
        'gs://other/a.png',
        'gs://shared/a.png',
        'gs://shared/publicity.png',
        'gs://shared/public/../a.png',
        'gs://BUCKET/a.png',
      ])
        expect(await ask(url)).toMatch(/^403 .*providers\.<id>\.buckets/)
      for (const model of ['own-gemini-default/metered', 'own-gemini-shared/metered', 'google/metered'])
        expect(await ask('gs://bucket/a.png', model)).toMatch(/^403 .*providers\.<id>\.buckets/)
      expect(provider.requests.length).toBe(sent)
    })

  test('gs:// objects are found wherever a request may name a file', async () => {
    const other = 'gs://other/a.png'
    const path = '/v1beta/models/own-gemini/metered'
    const part = { file_data: { file_uri: other, mime_type: 'image/png' } }
    const text = { role: 'user', parts: [{ text: 'Look' }] }
    const bodies: [method: string, body: object, param: string][] = [
      ['generateContent', { contents: [{ parts: [part] }] }, 'contents[0].parts[0].file_data.file_uri'],
      [
        'generateContent',
        { contents: [{ parts: [{ functionResponse: { name: 'f', response: {}, parts: [part] } }] }] },
        'contents[0].parts[0].functionResponse.parts[0].file_data.file_uri',
      ],
      [
        'generateContent',
        { contents: [text], system_instruction: { parts: [part] } },
        'system_instruction.parts[0].file_data.file_uri',
      ],
      [
        'countTokens',
        { generateContentRequest: { contents: [{ parts: [part] }] } },
        'contents[0].parts[0].file_data.file_uri',
      ],
    ]
    for (const [method, body, param] of bodies)
      expect(await never(`${path}:${method}`, JSON.stringify(body))).toMatchObject({ status: 403, param })
    const result = { type: 'tool_result', tool_use_id: 't', content: [PARTS.messages.url(other, 'image')] }
    expect(
      await never(
        '/v1/messages',
        JSON.stringify({
          model: 'own-gemini/metered',
          max_tokens: 1,
          messages: [{ role: 'user', content: [result] }],
        }),
      ),
    ).toMatchObject({ status: 403, param: 'messages[0].content[0].content[0].source.url' })
  })

  test('a count of tokens has one request to count, under either name of its member', async () => {
    const path = '/v1beta/models/own-gemini/metered:countTokens'
    const request = (fileUri: string): object => ({ contents: [{ parts: [{ fileData: { fileUri } }] }] })
    for (const name of ['generateContentRequest', 'generate_content_request'])
      expect(await never(path, JSON.stringify({ [name]: request('files/evil') }))).toMatchObject({ status: 404 })
    for (const body of [
      { ...request('files/evil'), generateContentRequest: request('gs://bucket/a') },
      { ...request('gs://bucket/a'), generate_content_request: request('files/evil') },
      { generateContentRequest: request('gs://bucket/a'), generate_content_request: request('files/evil') },
    ])
      expect(await never(path, JSON.stringify(body))).toMatchObject({ status: 400 })
  })

  test('an endpoint that does not accept URLs is skipped', async () => {
    const part = PARTS['chat.completions'].url(`http://127.0.0.1:${site.port}/a.png`, 'image')
    const response = await send(part, { protocol: 'chat.completions', model: 'both' })
    expect([
      response.status,
      response.headers.get('x-sluice-provider'),
      response.headers.get('x-sluice-attempts'),
    ]).toEqual([200, 'own-chat-fetching', '1'])
    await response.text()
  })

  test('slow fetches of one account do not delay those of other accounts', async () => {
    const part = (path: string): object => ({
      type: 'image_url',
      image_url: { url: `http://127.0.0.1:${site.port}/${path}` },
    })
    const leaving = new AbortController()
    const body = JSON.stringify({
      model: 'own-chat/metered',
      messages: [{ role: 'user', content: Array.from({ length: 20 }, () => part('slow')) }],
    })
    const waits = fetch(`${fetching.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${fetching.key}` },
      body,
      signal: leaving.signal,
    }).catch(() => undefined)
    await until(() => slow > 0)
    const response = await send(part('a.png'), {
      protocol: 'chat.completions',
      model: 'own-chat/metered',
      key: KEY_OF_ANOTHER,
      at: fetching,
    })
    expect(response.status, await response.text()).toBe(200)
    leaving.abort()
    await waits
  })

  test('many URLs are fetched; one that fails, or too many, refuse the request', async () => {
    const parts = (count: number, last = 'a.png'): object[] =>
      Array.from({ length: count }, (_, index) => ({
        type: 'image_url',
        image_url: { url: `http://127.0.0.1:${site.port}/${index === count - 1 ? last : 'a.png'}` },
      }))
    const ask = (content: object[]): Promise<Response> =>
      fetch(`${fetching.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${fetching.key}` },
        body: JSON.stringify({ model: 'own-chat/metered', messages: [{ role: 'user', content }] }),
      })
    expect((await ask(parts(40))).status).toBe(200)
    expect(mediaIn(received().body)).toEqual(Array.from({ length: 40 }, () => inline('image/png', PNG)))
    expect(await refusal(await ask(parts(40, 'none')))).toMatchObject({
      status: 400,
      param: 'messages[0].content[39].image_url.url',
    })
    expect(await refusal(await ask(parts(101)))).toMatchObject({
      status: 400,
      param: 'messages[0].content[100].image_url.url',
      message: expect.stringContaining('100 are the most'),
    })
  })
})
