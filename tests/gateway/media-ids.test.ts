import { describe, expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { PROTOCOLS } from './asking.ts'
import { gateway, idOf, never, received, useMediaGateway } from './media-gateway.ts'

useMediaGateway()

describe('ids that only a provider knows', () => {
  const user = { role: 'user', content: 'x' }
  const KEPT: [protocol: ConversationName, body: object, param: string][] = [
    ['responses', { input: 'x', prompt: { id: 'pmpt_1' } }, 'prompt.id'],
    [
      'responses',
      { input: 'x', tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
      'tools[0].vector_store_ids',
    ],
    [
      'messages',
      { max_tokens: 1, messages: [user], container: { skills: [{ type: 'custom', skill_id: 'skill_1' }] } },
      'container.skills[0].skill_id',
    ],
    ['chat.completions', { messages: [user], cached_content: 'cachedContents/1' }, 'cached_content'],
    [
      'chat.completions',
      { messages: [user], extra_body: { google: { cached_content: 'cachedContents/1' } } },
      'extra_body.google.cached_content',
    ],
    [
      'chat.completions',
      { messages: [user], tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
      'tools[0].vector_store_ids',
    ],
    ['chat.completions', { messages: [user], preset: 'sales' }, 'preset'],
    ['chat.completions', { messages: [user], thread_id: 'thread_1' }, 'thread_id'],
    ['chat.completions', { messages: [user], cache_id: 'cache_1' }, 'cache_id'],
    [
      'chat.completions',
      { messages: [user], search_parameters: { sources: [{ type: 'collections', collection_ids: ['c_1'] }] } },
      'search_parameters.sources[0].collection_ids',
    ],
    ['messages', { max_tokens: 1, messages: [user], user_profile_id: 'uprof_1' }, 'user_profile_id'],
    ['generateContent', { contents: [{ parts: [{ text: 'x' }] }], cachedContent: 'cachedContents/1' }, 'cachedContent'],
    [
      'generateContent',
      {
        contents: [{ parts: [{ text: 'x' }] }],
        tools: [{ fileSearch: { fileSearchStoreNames: ['fileSearchStores/1'] } }],
      },
      'tools[0].fileSearch.fileSearchStoreNames',
    ],
  ]
  const pathOf = (protocol: ConversationName, model: string): string =>
    ({
      'chat.completions': '/v1/chat/completions',
      responses: '/v1/responses',
      messages: '/v1/messages',
      generateContent: `/v1beta/models/${model}:generateContent`,
    })[protocol]

  test.each(KEPT)(
    "a provider's id in a request of %s is refused unless all accounts share it: %j",
    async (protocol, body, param) => {
      for (const upstream of PROTOCOLS) {
        const model = `${idOf(upstream)}${upstream === protocol ? '' : '-shared'}/metered`
        expect(await never(pathOf(protocol, model), JSON.stringify({ model, ...body }))).toMatchObject({
          status: 404,
          param,
          message: expect.stringContaining('sharedIds'),
        })
      }
      const model = `${idOf(protocol)}-shared/metered`
      const response = await fetch(gateway.url + pathOf(protocol, model), {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify({ model, ...body }),
      })
      expect(response.status, await response.text()).toBe(200)
      expect(received().body).toMatchObject(body)
    },
  )

  test("a provider's id is refused in tools and blocks", async () => {
    const tool = (container: unknown): string =>
      JSON.stringify({ model: 'own-responses/metered', input: 'x', tools: [{ type: 'code_interpreter', container }] })
    expect(await never('/v1/responses', tool('cntr_1'))).toMatchObject({ status: 404, param: 'tools[0].container' })
    expect(await never('/v1/responses', tool({ type: 'auto', file_ids: ['file-1'] }))).toMatchObject({
      status: 404,
      param: 'tools[0].container.file_ids',
    })
    const block = JSON.stringify({
      model: 'own-messages/metered',
      max_tokens: 1,
      messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: 'file_1' }] }],
    })
    for (const path of ['/v1/messages', '/v1/messages/count_tokens'])
      expect(await never(path, block)).toMatchObject({ status: 404, param: 'messages[0].content[0].file_id' })
  })

  test("a provider's id is found behind a repeated or escaped name", async () => {
    const chat = (file: string): string =>
      `{"model":"own-chat/metered","messages":[{"role":"user","content":[{"type":"file","file":${file}}]}]}`
    expect(
      await never('/v1/chat/completions', chat('{"file_id":"file-evil","file_id":null,"file_data":"JVBERi0="}')),
    ).toMatchObject({ status: 400, message: expect.stringContaining("'file_id' twice") })
    expect(
      await never('/v1/chat/completions', chat('{"file_id":"file-evil","file\\u005fid":null,"file_data":"JVBERi0="}')),
    ).toMatchObject({ status: 400, message: expect.stringContaining("'file_id' twice") })
    expect(await never('/v1/chat/completions', chat('{"file\\u005fid":"file-evil"}'))).toMatchObject({ status: 404 })
    const gemini = '{"contents":[{"parts":[{"fileData":{"fileUri":"files/evil","file\\u0055ri":"gs://a/b"}}]}]}'
    expect(await never('/v1beta/models/own-gemini/metered:generateContent', gemini)).toMatchObject({ status: 400 })
  })

  test("a provider's id is found in either of two members with the same name", async () => {
    const chat = (content: string): string => `{"model":"own-chat/metered","messages":[{"role":"user",${content}}]}`
    const message = (source: string): string =>
      '{"model":"own-messages/metered","max_tokens":1,' +
      `"messages":[{"role":"user","content":[{"type":"document",${source}}]}]}`
    const bodies: [path: string, body: string, name: string][] = [
      [
        '/v1/chat/completions',
        chat('"content":[{"type":"file","file":{"file_id":"file-evil"},"file":{"file_data":"JVBERi0="}}]'),
        'file',
      ],
      [
        '/v1/chat/completions',
        chat('"content":[{"type":"file","file":{"file_id":"file-evil"}}],"content":"Hello"'),
        'content',
      ],
      [
        '/v1/chat/completions',
        chat(
          '"content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/","url":"data:image/png;base64,AAAA"}}]',
        ),
        'url',
      ],
      [
        '/v1/messages',
        message(
          '"source":{"type":"file","file_id":"file-evil"},' +
            '"source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}',
        ),
        'source',
      ],
      [
        '/v1beta/models/own-gemini/metered:generateContent',
        '{"contents":[{"parts":[{"fileData":{"fileUri":"files/evil"},"fileData":null,"text":"x"}]}]}',
        'fileData',
      ],
    ]
    for (const [path, body, name] of bodies)
      expect(await never(path, body)).toMatchObject({
        status: 400,
        message: expect.stringContaining(`'${name}' twice`),
      })
  })

  test("a provider's id is refused where no file is allowed", async () => {
    const chat = (part: object): string =>
      JSON.stringify({ model: 'own-chat/metered', messages: [{ role: 'user', content: [part] }] })
    const bodies: [path: string, body: string, param: string][] = [
      ['/v1/chat/completions', chat({ type: 'input_file', file_id: 'file-evil' }), 'messages[0].content[0].file_id'],
      [
        '/v1/chat/completions',
        chat({ type: 'image_file', image_file: { file_id: 'file-evil' } }),
        'messages[0].content[0].image_file.file_id',
      ],
      [
        '/v1/responses',
        JSON.stringify({ model: 'own-responses/metered', input: [{ type: 'input_file', file_id: 'file-evil' }] }),
        'input[0].file_id',
      ],
      [
        '/v1/messages',
        JSON.stringify({
          model: 'own-messages/metered',
          max_tokens: 1,
          messages: [
            {
              role: 'user',
              content: [
                {
                  type: 'document',
                  source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=', file_id: 'file-evil' },
                },
              ],
            },
          ],
        }),
        'messages[0].content[0].source.file_id',
      ],
    ]
    for (const [path, body, param] of bodies) expect(await never(path, body)).toMatchObject({ status: 404, param })
  })
})
