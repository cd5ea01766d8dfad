import { describe, expect, test } from 'bun:test'
import { describeError, plain, quoted, quotedField, word } from '../../src/log/plain.ts'
import { hideSecret, scrub } from '../../src/log/secrets.ts'
import { jsonOf, textOf, type RequestEntry } from '../../src/log/request-line.ts'

const entry = (changes: Partial<RequestEntry> = {}): RequestEntry => ({
  level: 'info',
  requestId: 'req_1',
  route: 'messages',
  status: 200,
  key: 'laptop',
  model: 'acme/large',
  error: undefined,
  ms: 6203,
  generation: {
    id: 'msg_1',
    protocol: 'messages',
    isStream: true,
    outcome: 'completed',
    served: { provider: 'acme', model: 'large-2026' },
    attempts: [{ provider: 'acme', milliseconds: 5 }],
    inputTokens: 1204,
    cachedTokens: 1000,
    outputTokens: 300,
    reasoningTokens: 56,
    cost: '0.008952',
    firstMs: 812,
    losses: [],
  },
  ...changes,
})

/** Characters that end a line, move the cursor, colour, or turn the direction of the text. */
const HOSTILE = 'a\nb\r\nc\u001b[31md\u009b2Je\u2028f\u202eg\u007fh'

describe('the line of a request', () => {
  test('JSON has every fact of a generation', () => {
    expect(JSON.parse(jsonOf(entry()))).toEqual({
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      level: 'info',
      message: 'request',
      request: 'req_1',
      route: 'messages',
      status: 200,
      ms: 6203,
      key: 'laptop',
      model: 'acme/large',
      generation: 'msg_1',
      protocol: 'messages',
      stream: true,
      outcome: 'completed',
      inputTokens: 1204,
      cachedTokens: 1000,
      outputTokens: 300,
      reasoningTokens: 56,
      cost: 0.008952,
      provider: 'acme',
      providerModel: 'large-2026',
      firstMs: 812,
    })
  })

  test('attempts appear where one failed, and losses where there are some', () => {
    const attempts = [
      { provider: 'acme', error: 'overloaded', milliseconds: 3 },
      { provider: 'b', milliseconds: 5, sent: true },
    ]
    const generation = { ...entry().generation!, attempts, losses: ['tool_renamed'] }
    expect(JSON.parse(jsonOf(entry({ generation })))).toMatchObject({
      attempts: [
        { provider: 'acme', error: 'overloaded', milliseconds: 3 },
        { provider: 'b', milliseconds: 5 },
      ],
      losses: ['tool_renamed'],
    })
    expect(textOf(entry({ generation }))).toContain(
      ' tried acme: overloaded, b: served losses tool_renamed key laptop ',
    )
  })

  test('columns of text are aligned', () => {
    const [full, refused] = [textOf(entry()), textOf(entry({ generation: undefined, status: 404, error: 'not_found' }))]
    expect(full).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} 200 messages +acme\/large +acme +1204 in +356 out +\$0\.008952 +812 ms/,
    )
    expect(full).toEndWith(' 6203 ms key laptop msg_1\n')
    expect(refused).toEndWith(' 6203 ms not_found key laptop req_1\n')
    expect(refused.indexOf(' 6203 ms')).toBe(full.indexOf(' 6203 ms'))
  })

  test.each(['text', 'json'])('names cannot break or disguise a line of %s', (format) => {
    const hostile = entry({ model: HOSTILE, key: HOSTILE, route: HOSTILE, ms: 1 })
    const line = format === 'text' ? textOf(hostile) : jsonOf(hostile)
    expect(line.slice(0, -1)).toMatch(/^[\x20-\x7e]+$/)
    expect(line).toEndWith('\n')
    if (format === 'json') expect(JSON.parse(line)).toMatchObject({ model: HOSTILE, key: HOSTILE, route: HOSTILE })
  })

  test('long names are cut', () => {
    expect(JSON.parse(jsonOf(entry({ model: 'm'.repeat(5000) }))).model).toBe(`${'m'.repeat(200)}…`)
  })
})

describe('texts', () => {
  test('a word has no space, no control and no more than 200 characters', () => {
    expect(word(HOSTILE)).toMatch(/^[\x21-\x7e]+$/)
    expect(word('a b')).toBe('a\\u0020b')
    expect(plain('a b\n')).toBe('a b\\u000a')
    expect(JSON.parse(quoted(HOSTILE))).toBe(HOSTILE)
    expect(JSON.parse(quotedField('"\\\ud800'))).toBe('"\\\ud800')
  })

  test('texts that look like keys are replaced', () => {
    for (const secret of ['sk-ai-v1-0123456789abcdef', 'AIzaSyA0123456789', 'gsk_0123456789', 'ghp_0123456789'])
      expect(scrub(`refused ${secret}, twice ${secret}!`)).toBe('refused [hidden], twice [hidden]!')
    expect(scrub('Bearer abc.def-ghi12')).toBe('Bearer [hidden]')
    expect(scrub('a risk-free message')).toBe('a risk-free message')
  })

  test.each(['api_key', 'apiKey', 'authorization', 'authorization_token', 'refresh_token', 'client_secret'])(
    'a member %s is replaced, also in JSON within JSON',
    (name) => {
      let text = JSON.stringify({ [name]: '0123456789ab/cdef+ghi=', url: 'https://example.com/mcp' })
      for (let depth = 0; depth < 3; depth++) {
        expect(scrub(text)).not.toMatch(/0123456789|cdef|ghi/)
        expect(scrub(text)).toContain('https://example.com/mcp')
        text = JSON.stringify({ arguments: text })
      }
      expect(scrub(`${name}: 0123456789abcdef`)).toBe(`${name}: [hidden]`)
    },
  )

  test('members of JSON that are no credentials stay', () => {
    for (const text of [
      '{"token":" something","max_tokens":12345678}',
      '{"authorization":{"type":"none"}}',
      '{"prompt_cache_key":"conversation-1234"}',
      '{"key":12345678901,"api_key":1234567890.5}',
    ])
      expect(scrub(text)).toBe(text)
  })

  test('a configured credential is hidden as URLs, JSON and base64 have it', () => {
    const secret = 'Ab9/x+Yz==quiet'
    hideSecret(secret)
    const json = [JSON.stringify(secret).replaceAll('/', '\\/'), secret.replaceAll('+', '\\u002B')]
    const url = [
      encodeURIComponent(secret),
      encodeURIComponent(secret).replaceAll(/%../g, (byte) => byte.toLowerCase()),
    ]
    for (const text of [...json, ...json.map((one) => JSON.stringify(one)), ...url])
      expect(scrub(`refused ${text}!`)).toMatch(/^refused [\\"]*\[hidden\][\\"]*!$/)
    for (const before of ['', 'u:', 'x', 'user'])
      for (const encoding of ['base64', 'base64url'] as const)
        expect(scrub(Buffer.from(before + secret).toString(encoding))).toMatch(/^.{0,7}\[hidden\].{0,4}$/)
  })

  test('configured credentials are replaced whole, although one contains another', () => {
    for (const secret of ['quiet-stream', 'quiet-stream-two']) hideSecret(secret)
    expect(scrub('not quiet-stream-two, nor quiet-stream')).toBe('not [hidden], nor [hidden]')
    expect(describeError(new Error('refused quiet-stream-two'))).not.toContain('quiet')
  })

  test('an error has its name, message, stack and causes, without what its message quotes', () => {
    let thrown: unknown
    try {
      JSON.parse('{"a": canary}')
    } catch (error) {
      thrown = new Error('outer sk-ai-v1-0123456789abcdef', { cause: error })
    }
    const text = describeError(thrown)
    expect(text).toMatch(/^Error: outer \[hidden\]\n +at .*lines\.test\.ts/)
    expect(text).toMatch(/\ncaused by SyntaxError: JSON Parse error: .*"…"/)
    expect(text).not.toContain('canary')
    expect(describeError('canary')).toBe('string')
    expect(describeError(new Error(`${'x'.repeat(1000)} "canary`)).length).toBeLessThan(1000)
    expect(describeError(new Error('read "can\nary" and "unfinished canary'))).not.toMatch(/can/)
  })
})
