import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, startGatewayProcess, type Gateway } from '../server.ts'
import { everythingIn, ON_POSTGRES } from '../stores.ts'
import { PROTOCOLS } from './asking.ts'
import { KEEPING_CALLS, SIGNED, signedIn, signingProvider, type Answer } from './signing.ts'

/** Signed reasoning that clients do not send back, and that providers receive all the same. */

/** The store gets the same from all clients: over PostgreSQL, there is one of them. */
const CLIENTS = ON_POSTGRES ? PROTOCOLS.slice(0, 1) : PROTOCOLS
const OTHER_KEY = `sk-ai-v1-other${'0123456789abcdef'.repeat(3)}`

let provider: ReturnType<typeof signingProvider>
let gateway: Gateway
beforeAll(async () => {
  provider = signingProvider()
  gateway = await startGateway({ config: config() })
})
afterAll(async () => {
  provider.stop()
  await gateway.stop()
})
beforeEach(() => {
  provider.bodies.length = 0
})

const providerRow = (id: string, protocol: ConversationName, quirks: string): string => `
  ${id}:
    { protocol: ${protocol}, baseUrl: '${provider.url}/${id}', auth: none, unlisted: true, quirks: { ${quirks} } }`
const config = (more = ''): string => `${more}
billing: { unpriced: free }
providers:
${PROTOCOLS.map((protocol) => providerRow(nameOf(protocol), protocol, 'reasoningField: reasoning_details')).join('')}
${providerRow('unsigned', 'chat.completions', 'replaysReasoning: true, requiresReasoning: true')}
models:
  level/three: { endpoints: [{ provider: gc, model: three }], capabilities: { reasoning: level } }
keys:
  - { key: ${OTHER_KEY}, name: other, kind: pay-as-you-go, account: other }
`
const NAMES: Record<ConversationName, string> = {
  'chat.completions': 'cc',
  responses: 'rs',
  messages: 'ms',
  generateContent: 'gc',
}
const nameOf = (protocol: ConversationName): string => NAMES[protocol]

let calls = 0
/** A unique answer, whose signature has characters of both base64 alphabets and whose reasoning must be escaped. */
const signed = (over: Partial<Answer> = {}): Answer => ({
  callId: `call_${++calls}_x`,
  signature: `${Buffer.from(`sig ${calls} ÿþ`).toString('base64')}+/-_`,
  thought: `Thought ${calls}: "é" \\ \u2028 \n`,
  args: { of: 'x"\n', deep: { b: 1, a: [true, null] } },
  ...over,
})

type Turn = { client: ConversationName; model: string; at?: Gateway; key?: string }

async function ask({ client, model, at = gateway, key = gateway.key }: Turn, body: string): Promise<Response> {
  const response = await fetch(at.url + KEEPING_CALLS[client].path(model), {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  })
  expect([response.status, response.status === 200 ? '' : await response.text()]).toEqual([200, ''])
  await response.clone().text()
  return response
}
const first = async (turn: Turn, answer = signed()): Promise<Answer> => {
  provider.next = answer
  await ask(turn, KEEPING_CALLS[turn.client].first(turn.model))
  return answer
}
/** The body that the provider received in the second turn. */
const second = async (turn: Turn, answer: Answer): Promise<string> => {
  provider.next = signed()
  await ask(turn, KEEPING_CALLS[turn.client].second(turn.model, answer))
  return provider.bodies.at(-1)!
}

describe.each(CLIENTS)('a client of %s that sends back tool calls without reasoning', (client) => {
  test.each(PROTOCOLS)('reasoning is restored for a model of %s', async (protocol) => {
    const turn = { client, model: `${nameOf(protocol)}/m` }
    const answer = await first(turn)
    const sent = await second(turn, answer)
    expect(signedIn(sent)).toEqual(SIGNED[protocol](answer))
    // Immediately before the call.
    if (protocol === 'messages')
      expect((JSON.parse(sent) as any).messages[1].content.map(({ type }: any) => type)).toEqual([
        'thinking',
        'redacted_thinking',
        'tool_use',
      ])
    if (protocol === 'responses')
      expect((JSON.parse(sent) as any).input.slice(-3).map(({ type }: any) => type)).toEqual([
        'reasoning',
        'function_call',
        'function_call_output',
      ])
  })

  test.each(PROTOCOLS)('reasoning of another model is not sent to a model of %s', async (protocol) => {
    const answer = await first({ client, model: `${nameOf(protocol)}/m` })
    for (const other of PROTOCOLS)
      expect(signedIn(await second({ client, model: `${nameOf(other)}/n` }, answer))).toEqual([])
  })

  test('reasoning is not restored for another account with the same call', async () => {
    for (const protocol of PROTOCOLS) {
      const turn = { client, model: `${nameOf(protocol)}/m` }
      const mine = await first(turn)
      const theirs = { ...signed(), callId: mine.callId, args: mine.args }
      expect(signedIn(await second({ ...turn, key: OTHER_KEY }, theirs))).toEqual([])
      await first({ ...turn, key: OTHER_KEY }, theirs)
      expect(signedIn(await second(turn, mine))).toEqual(SIGNED[protocol](mine))
      expect(signedIn(await second({ ...turn, key: OTHER_KEY }, theirs))).toEqual(SIGNED[protocol](theirs))
    }
  })

  test('reasoning is not restored for a call that the model did not make', async () => {
    const answer = await first({ client, model: `${nameOf(client)}/m` })
    expect(signedIn(await second({ client, model: `${nameOf(client)}/m` }, { ...answer, args: { of: 'y' } }))).toEqual(
      [],
    )
    expect(
      signedIn(await second({ client, model: `${nameOf(client)}/m` }, { ...answer, callId: 'call_unheard_of' })),
    ).toEqual([])
  })

  test('all other bytes pass unchanged to a provider of the same protocol', async () => {
    const turn = { client, model: `${nameOf(client)}/m` }
    const answer = await first(turn)
    const sent = await second(turn, answer)
    const added = SIGNED[client](answer).map((one) => JSON.stringify(one))
    const without = {
      'chat.completions': `"reasoning_details":[${added[0]}],`,
      responses: `${added[0]},`,
      messages: `${added.join(',')},`,
      generateContent: `"thoughtSignature":${added[0]},`,
    }[client]
    expect(sent).toContain(without)
    const changed = sent.replace(without, '').replace(/"include":\["reasoning.encrypted_content"\],/, '')
    expect(changed).toBe(KEEPING_CALLS[client].second(turn.model, answer).replace(`"${turn.model}"`, '"m"'))
  })
})

/** The kinds of the parts of an answer. */
const kindsIn: Record<ConversationName, (answer: any) => unknown[]> = {
  'chat.completions': ({ choices: [{ message }] }) => [
    ...((message.reasoning ?? message.reasoning_content ?? '') === '' ? [] : ['reasoning']),
    ...message.tool_calls.map(({ type }: any) => type),
  ],
  responses: ({ output }) => output.map(({ type }: any) => type),
  messages: ({ content }) => content.map(({ type }: any) => type),
  generateContent: ({ candidates: [{ content }] }) => content.parts.map((part: any) => Object.keys(part)[0]),
}

test.each(CLIENTS)(
  'empty reasoning is omitted for %s and sent to a provider that requires the field',
  async (client) => {
    const turn = { client, model: 'unsigned/m' }
    const answer = (provider.next = signed({ signature: '', thought: '' }))
    expect(kindsIn[client](await (await ask(turn, KEEPING_CALLS[client].first(turn.model))).json())).toHaveLength(1)
    const { messages } = JSON.parse(await second(turn, answer)) as {
      messages: { role: string; reasoning_content?: string }[]
    }
    expect(
      messages.filter(({ role }) => role === 'assistant').map(({ reasoning_content }) => reasoning_content),
    ).toEqual([''])
    // The field is required in calls of another model, too.
    const others = JSON.parse(await second(turn, signed())) as typeof answer & { messages: typeof messages }
    expect(
      others.messages.filter(({ role }) => role === 'assistant').map(({ reasoning_content }) => reasoning_content),
    ).toEqual([''])
    expect(await second({ client, model: 'cc/m' }, answer)).not.toContain('reasoning_content')
  },
)

test.each(CLIENTS)('unsigned reasoning is restored from %s for a provider that requires it', async (client) => {
  const turn = { client, model: 'unsigned/m' }
  const answer = await first(turn, signed({ signature: '' }))
  const { messages } = JSON.parse(await second(turn, answer)) as {
    messages: { role: string; reasoning_content?: string }[]
  }
  expect(messages.filter(({ role }) => role === 'assistant').map(({ reasoning_content }) => reasoning_content)).toEqual(
    [answer.thought],
  )
  // It is not sent to other providers, which may refuse the field.
  const elsewhere = { client, model: 'cc/m' }
  expect(await second(elsewhere, await first(elsewhere, signed({ signature: '' })))).not.toContain('Thought ')
})

test('stored reasoning outlives a killed server', async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-reasoning-'))
  try {
    const answers = new Map<string, Answer>()
    const before = await startGatewayProcess({ data, config: config() })
    for (const client of CLIENTS)
      for (const protocol of PROTOCOLS)
        answers.set(`${client} ${protocol}`, await first({ client, model: `${nameOf(protocol)}/m`, at: before }))
    before.kill('SIGKILL')
    await before.exited
    // The database contains neither reasoning nor the ids with which it could be decrypted.
    const kept = await everythingIn(data)
    expect(kept.includes('acct_')).toBe(true)
    for (const { callId, thought } of answers.values())
      expect([kept.includes(callId!), kept.includes(thought.slice(0, 10))]).toEqual([false, false])
    const after = await startGatewayProcess({ data, config: config() })
    for (const client of CLIENTS)
      for (const protocol of PROTOCOLS) {
        const answer = answers.get(`${client} ${protocol}`)!
        expect(signedIn(await second({ client, model: `${nameOf(protocol)}/m`, at: after }, answer))).toEqual(
          SIGNED[protocol](answer),
        )
      }
    await after.stop()
    const keepingNone = await startGatewayProcess({ data, config: config('reasoning: { keep: 0s }') })
    for (const [pair, answer] of answers) {
      const [client, protocol] = pair.split(' ') as [ConversationName, ConversationName]
      expect(signedIn(await second({ client, model: `${nameOf(protocol)}/m`, at: keepingNone }, answer))).toEqual([])
    }
    await keepingNone.stop()
  } finally {
    rmSync(data, { recursive: true, force: true })
  }
}, 60_000)

test('signatures that a client sends back, even only some of them, are passed on unchanged', async () => {
  const answer = await first({ client: 'messages', model: 'ms/m' })
  const [kept] = SIGNED.messages(answer)
  const body = KEEPING_CALLS.messages
    .second('ms/m', answer)
    .replace('"content": [', `"content": [${JSON.stringify(kept)},`)
  await ask({ client: 'messages', model: 'ms/m' }, body)
  expect(provider.bodies.at(-1)).toBe(body.replace('"ms/m"', '"m"'))
})

describe('a tool call without stored reasoning', () => {
  const UNSIGNED = 'skip_thought_signature_validator'

  test('a call without an id has no stored reasoning in generateContent; other protocols get an id', async () => {
    const model = 'level/three'
    const answer = (provider.next = signed({ callId: undefined }))
    const own = await (
      await ask({ client: 'generateContent', model }, KEEPING_CALLS.generateContent.first(model))
    ).text()
    expect([own.includes('"id"'), own.includes(JSON.stringify(answer.signature))]).toEqual([false, true])
    const body = KEEPING_CALLS.generateContent.second(model, answer).replaceAll('"id":"undefined",', '')
    const response = await ask({ client: 'generateContent', model }, body)
    expect(signedIn(provider.bodies.at(-1)!)).toEqual([UNSIGNED])
    expect(JSON.parse(response.headers.get('x-sluice-translation')!)).toEqual([
      { code: 'signature_replaced', path: 'contents[1].parts[0]', effect: 'approximated', reason: expect.any(String) },
    ])
    const strict = await fetch(gateway.url + KEEPING_CALLS.generateContent.path(model), {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'x-sluice-strict': 'true' },
      body,
    })
    expect([strict.status, await strict.text()]).toEqual([
      400,
      expect.stringContaining('contents[1].parts[0] would be approximated for gc'),
    ])
    provider.next = answer
    const { choices } = (await (
      await ask({ client: 'chat.completions', model }, KEEPING_CALLS['chat.completions'].first(model))
    ).json()) as any
    expect(
      signedIn(
        await second({ client: 'chat.completions', model }, { ...answer, callId: choices[0].message.tool_calls[0].id }),
      ),
    ).toEqual([answer.signature])
  })

  test.each(CLIENTS)(
    'a call from %s goes to a model that requires signatures with the documented placeholder',
    async (client) => {
      provider.next = signed()
      const response = await ask(
        { client, model: 'level/three' },
        KEEPING_CALLS[client].second('level/three', signed()),
      )
      expect(signedIn(provider.bodies.at(-1)!)).toEqual([UNSIGNED])
      expect(JSON.parse(response.headers.get('x-sluice-translation') ?? '[]')).toContainEqual(
        expect.objectContaining({ code: 'signature_replaced', effect: 'approximated' }),
      )
    },
  )

  test('a call goes unchanged to a model that does not require signatures', async () => {
    const answer = signed()
    const turn = { client: 'generateContent', model: 'gc/m' } as const
    expect(await second(turn, answer)).toBe(KEEPING_CALLS.generateContent.second('gc/m', answer))
  })

  test('a call of a streamed response is signed once', async () => {
    const call = (name: string, more = ''): string =>
      `{"role":"model","parts":[{"functionCall":{"name":"${name}"}${more}}]}`
    const result = (name: string): string => `{"functionResponse":{"name":"${name}","response":{"output":"1"}}}`
    const results = `{"role":"user","parts":[${result('a')},${result('b')}]}`
    const body =
      `{"contents":[{"role":"user","parts":[{"text":"Go"}]},${call('a', ',"thought_signature":""')},${call('b')},` +
      `${results},${call('a', ',"thoughtSignature":"own"')},${call('b')},${results}]}`
    await ask({ client: 'generateContent', model: 'level/three' }, body)
    expect(provider.bodies.at(-1)).toBe(body.replace('"thought_signature":""', `"thought_signature":"${UNSIGNED}"`))
  })
})
