import { describe, expect, test } from 'bun:test'
import { ON_POSTGRES } from '../stores.ts'
import { gateway, generate, get, record, useGateways } from './shown-generations.ts'

useGateways()

describe('a generation', () => {
  const MODELS: Record<string, { model: string; prefix: string }> = {
    'chat.completions': { model: 'priced/chat', prefix: 'chatcmpl-' },
    responses: { model: 'priced/responses', prefix: 'resp_' },
    messages: { model: 'priced/messages', prefix: 'msg_' },
    generateContent: { model: 'priced/gemini', prefix: '' },
  }

  for (const [api, { model, prefix }] of Object.entries(MODELS)) {
    for (const stream of [false, true]) {
      test(`a generation of ${api}, ${stream ? '' : 'not '}streamed, has every field`, async () => {
        const before = Date.now()
        const id = await generate(
          gateway,
          api,
          model,
          '[[reply: Hello]] [[usage: in=10 out=20 cached=5 reasoning=3]] [[delay: 20ms]]',
          { stream },
        )
        const shown = await record(gateway, id)
        expect(id.startsWith(prefix)).toBe(true)
        expect(shown.latency as number).toBeGreaterThanOrEqual(20)
        if (!stream) expect(shown.generationTime as number).toBeGreaterThanOrEqual(shown.latency as number)
        expect(shown).toEqual({
          api,
          generationId: id,
          model,
          streamed: stream,
          finishReason: 'stop',
          requestRetryTimes: 0,
          finalRetry: true,
          estimated: false,
          ending: 'completed',
          provider: 'sandbox',
          createAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
          generationTime: expect.any(Number),
          latency: expect.any(Number),
          nativeTokens: {
            prompt_tokens: 15,
            completion_tokens: 23,
            total_tokens: 38,
            prompt_tokens_details: { cached_tokens: 5 },
            completion_tokens_details: { reasoning_tokens: 3 },
          },
          usage: 0.000243125,
          ratingResponses: {
            originAmount: 0.000243125,
            discountAmount: 0,
            billAmount: 0.000243125,
            priceVersion: expect.stringMatching(/^(?!unpriced$)/),
            ratingDetails: [
              {
                feeItemCode: 'prompt',
                quantity: 10,
                rate: 1.25,
                originAmount: 0.0000125,
                discountAmount: 0,
                billAmount: 0.0000125,
              },
              {
                feeItemCode: 'input_cache_read',
                quantity: 5,
                rate: 0.125,
                originAmount: 0.000000625,
                discountAmount: 0,
                billAmount: 0.000000625,
              },
              {
                feeItemCode: 'completion',
                quantity: 23,
                rate: 10,
                originAmount: 0.00023,
                discountAmount: 0,
                billAmount: 0.00023,
              },
            ],
          },
        })
        const at = Date.parse(shown.createAt as string)
        // The clock of PostgreSQL may differ from that of this process.
        const differenceMs = ON_POSTGRES ? 1_000 : 0
        expect(at >= before - differenceMs && at <= Date.now() + differenceMs).toBe(true)
        expect(
          [shown.latency, shown.generationTime].every((time) => Number.isInteger(time) && (time as number) >= 0),
        ).toBe(true)
      })
    }
  }

  test('a generation is found under each form of its id and by either parameter', async () => {
    const id = await generate(gateway, 'chat.completions', 'sandbox/chat', 'Hello')
    const shown = await record(gateway, id)
    const unprefixed = id.slice('chatcmpl-'.length)
    for (const query of [
      `id=${unprefixed}`,
      `generate_id=${id}`,
      `id=${id}&generate_id=${id}`,
      `id=resp_${unprefixed}`,
      `id=msg_${unprefixed}`,
      `id=img_${unprefixed}`,
      `id=pred_${unprefixed}`,
    ]) {
      expect(JSON.parse((await get(gateway, `/v1/management/generation?${query}`)).text)).toEqual(shown)
    }
    for (const query of [
      `id=${unprefixed.toUpperCase()}`,
      `id=x_${unprefixed}`,
      `id=${unprefixed.slice(1)}`,
      `id=${id}%20`,
      `id=${id}%00`,
      `id=${'a'.repeat(10_000)}`,
    ]) {
      expect([query.slice(0, 60), (await get(gateway, `/v1/management/generation?${query}`)).status]).toEqual([
        query.slice(0, 60),
        404,
      ])
    }
    for (const query of [
      '',
      'id=',
      'generate_id=',
      `id[]=${id}`,
      `ids=${id}`,
      `id=${id}&id=${unprefixed}`,
      `id=${id}&generate_id=x`,
    ]) {
      const { status, text } = await get(gateway, `/v1/management/generation?${query}`)
      expect([query, status, (JSON.parse(text) as { error: { param: string } }).error.param]).toEqual([
        query,
        400,
        'id',
      ])
    }
  })

  test('a generation that took two attempts lists both', async () => {
    const shown = await record(gateway, await generate(gateway, 'chat.completions', 'twice', 'Hello'))
    expect(shown).toMatchObject({
      requestRetryTimes: 1,
      finalRetry: true,
      provider: 'sandbox',
      attempts: [{ provider: 'down', error: 'upstream_error' }, { provider: 'sandbox' }],
    })
  })

  test.each([
    ['length', 'length'],
    ['tool-calls', 'tool_calls'],
    ['content-filter', 'content_filter'],
    ['stop-sequence', 'stop'],
  ])('a generation that ended with %s is shown as %s', async (directive, finishReason) => {
    const text =
      directive === 'tool-calls'
        ? '[[call: get_weather {"city":"Paris"}]]'
        : `[[reply: Hello]] [[finish: ${directive}]]`
    expect(await record(gateway, await generate(gateway, 'chat.completions', 'sandbox/chat', text))).toMatchObject({
      finishReason,
    })
  })
})
