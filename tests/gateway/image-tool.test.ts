import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { noUsage } from '../../src/generation/usage.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { ratingOf } from '../../src/ledger/record-rating.ts'
import { startGateway, type Gateway } from '../server.ts'
import { storeOf } from '../stores.ts'
import { ask, failureOf } from './asking.ts'

/** The cost of images of the tool `image_generation`: tokens of its image model, which responses report apart. */

/** A request with one image drew one. */
const DRAWN = {
  input_tokens: 7_918,
  input_tokens_details: { image_tokens: 7_620, text_tokens: 298 },
  output_tokens: 196,
  output_tokens_details: { image_tokens: 186, text_tokens: 10 },
  total_tokens: 8_114,
}
const COUNTED = {
  inputTokens: 1_000,
  outputTokens: 100,
  imageToolInputTokens: 298,
  imageToolInputImageTokens: 7_620,
  imageToolOutputTokens: 10,
  imageToolOutputImageTokens: 186,
}

/** The tools that the next response says it had. */
let tools: object[] = []
let tier = 'default'
/** The next stream ends after its image. */
let breaksOff = false
/** The next responses have a prompt of this many tokens. */
let promptTokens = 1_000
const image = { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'iVBORw0KGgo=' }
const responseOf = (model: unknown, status: string): object => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status,
  model,
  service_tier: tier,
  output: [image],
  tools,
  usage: { input_tokens: promptTokens, output_tokens: 100, total_tokens: promptTokens + 100 },
  tool_usage: { image_gen: DRAWN, web_search: { num_requests: 0 } },
})

const sent: Record<string, unknown>[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    if (request.method === 'GET') return Response.json(responseOf('gpt-5', 'completed'))
    const body = (await request.json()) as Record<string, unknown>
    sent.push(body)
    if (body.background === true) return Response.json({ ...responseOf(body.model, 'queued'), output: [], usage: null })
    const response = responseOf(body.model, 'completed')
    if (body.stream !== true) return Response.json(response)
    const frames = [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [], usage: null } },
      { type: 'response.output_item.done', output_index: 0, item: image },
      ...(breaksOff ? [] : [{ type: 'response.completed', response }]),
    ]
    return new Response(frames.map((frame) => `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`).join(''), {
      headers: { 'content-type': 'text/event-stream' },
    })
  },
})

const OTHER = 'sk-ai-v1-0123456789abcdef0123456789abcdef'
const configOf = (more: string): string => `
providers:
  openai: { apiKey: k, baseUrl: "http://127.0.0.1:${provider.port}/v1", protocol: responses }
models:
  openai/own-image: { price: { prompt: 1, input_image: 2, completion: 3, output_image: 4 } }
  openai/gpt-5-nano: { price: { prompt: 1, completion: 2 } }
  openai/gpt-5-mini: { price: { prompt: 1, completion: 2, image: 0.5 } }
  openai/gpt-4.1: { price: { prompt: 0, completion: 0 } }
${more}`

let gateway: Gateway
let shared: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: configOf('') })
  shared = await startGateway({ config: configOf(`keys: [{ key: ${OTHER}, account: other }]\n`) })
})
afterAll(async () => {
  await gateway.stop()
  await shared.stop()
  await provider.stop(true)
})

const lastRecord = async (of: Gateway): Promise<GenerationRecord> => {
  const store = await storeOf(of)
  const records = await store.ledger.generations(undefined, 1_000)
  await store.close()
  return records.toSorted((a, b) => (a.id < b.id ? -1 : 1)).at(-1)!
}

const imageTool = (more: object = {}): object => ({ type: 'image_generation', ...more })
const respond = async (model: string, tool: object, stream = false, of = gateway): Promise<GenerationRecord> => {
  const response = await ask({ ...of, protocol: 'responses', model, stream, more: { tools: [tool] } })
  expect(response.status).toBe(200)
  await response.text()
  return lastRecord(of)
}
/** Nano-USD of each item that an image tool adds. */
const imageLines = (record: GenerationRecord): Record<string, bigint> =>
  Object.fromEntries(
    ratingOf(record).items.flatMap(({ item, bill }) => (item.startsWith('image_tool') ? [[item, bill]] : [])),
  )

/** By the price list: text 5, images 10 and output 40 USD per million tokens. */
const GPT_IMAGE_1 = {
  image_tool_prompt: 298n * 5_000n,
  image_tool_input_image: 7_620n * 10_000n,
  image_tool_completion: 196n * 40_000n,
}
/** Text 5, images 8, output 10 and of images 32. */
const GPT_IMAGE_1_5 = {
  image_tool_prompt: 298n * 5_000n,
  image_tool_input_image: 7_620n * 8_000n,
  image_tool_completion: 10n * 10_000n,
  image_tool_output_image: 186n * 32_000n,
}
/** GPT-5: 1.25 and 10. */
const OWN = 1_000n * 1_250n + 100n * 10_000n
const sum = (lines: Record<string, bigint>): bigint => Object.values(lines).reduce((all, one) => all + one, 0n)

describe('images of a tool', () => {
  test.each([false, true])('cost the tokens of its image model, streamed: %p', async (stream) => {
    tools = [imageTool({ model: 'gpt-image-1.5' })]
    const record = await respond('openai/gpt-5', imageTool({ model: 'gpt-image-1.5' }), stream)
    expect(record.usage).toEqual({ ...noUsage(), ...COUNTED, images: 1 })
    expect(imageLines(record)).toEqual(GPT_IMAGE_1_5)
    expect(record.bill).toBe(OWN + sum(GPT_IMAGE_1_5))
    expect(record.price?.version).toMatch(/^\d{4}-\d\d-\d\d \+gpt-image-1\.5 \d{4}-\d\d-\d\d$/)
    expect(record.held).toBeGreaterThan(record.bill)
  })

  test('cost those of the default model where neither request nor response names one', async () => {
    tools = [imageTool()]
    expect(imageLines(await respond('openai/gpt-5', imageTool()))).toEqual(GPT_IMAGE_1)
  })

  test('cost those of the model that the response names', async () => {
    tools = [imageTool({ model: 'gpt-image-1.5' })]
    expect(imageLines(await respond('openai/gpt-5', imageTool()))).toEqual(GPT_IMAGE_1_5)
  })

  test('cost those of the requested model where that of the response has no price', async () => {
    tools = [imageTool({ model: 'gpt-image-99' })]
    expect(imageLines(await respond('openai/gpt-5', imageTool()))).toEqual(GPT_IMAGE_1)
  })

  test('cost the same in every class of service', async () => {
    tools = [imageTool()]
    tier = 'priority'
    const record = await respond('openai/gpt-5', imageTool())
    tier = 'default'
    expect(imageLines(record)).toEqual(GPT_IMAGE_1)
    expect(record.bill).toBe(2n * OWN + sum(GPT_IMAGE_1))
  })

  test('cost what the operator charges for the image model', async () => {
    tools = [imageTool({ model: 'own-image' })]
    expect(imageLines(await respond('openai/gpt-5', imageTool({ model: 'own-image' })))).toEqual({
      image_tool_prompt: 298n * 1_000n,
      image_tool_input_image: 7_620n * 2_000n,
      image_tool_completion: 10n * 3_000n,
      image_tool_output_image: 186n * 4_000n,
    })
  })

  test('are added to a price of the operator that does not say what images cost', async () => {
    tools = [imageTool()]
    expect(imageLines(await respond('openai/gpt-5-nano', imageTool()))).toEqual(GPT_IMAGE_1)
    const perImage = await respond('openai/gpt-5-mini', imageTool())
    expect(perImage.bill).toBe(1_000n * 1_000n + 100n * 2_000n + 500_000_000n)
    expect((await respond('openai/gpt-4.1', imageTool())).bill).toBe(0n)
  })

  test('cost what was held for each where the response ends without a report', async () => {
    breaksOff = true
    const response = await ask({
      ...gateway,
      protocol: 'responses',
      model: 'openai/gpt-5',
      stream: true,
      more: { tools: [imageTool({ size: '1024x1024' })] },
    })
    await response.text()
    breaksOff = false
    const record = await lastRecord(gateway)
    expect([record.ending, record.estimated, record.usage.images]).toEqual(['failed', true, 1])
    expect(imageLines(record)).toEqual({ image_tool_completion: 7_865n * 40_000n })
  })

  test('cost what was reported of them where the prompt was not', async () => {
    tools = [imageTool()]
    promptTokens = 0
    const record = await respond('openai/gpt-5', imageTool())
    promptTokens = 1_000
    expect([record.ending, record.estimated, record.usage.images]).toEqual(['completed', true, 1])
    expect(imageLines(record)).toEqual(GPT_IMAGE_1)
  })

  test('are part of what the provider is owed', async () => {
    tools = [imageTool()]
    const { id } = await respond('openai/gpt-5', imageTool())
    const store = await storeOf(gateway)
    const transfers = await store.ledger.transfers(undefined, 10_000)
    await store.close()
    const cost = transfers.find(({ reference, kind }) => reference === id && kind === 'cost')
    expect(cost?.amount).toBe(OWN + sum(GPT_IMAGE_1))
  })

  test('are billed for a client of another protocol, for whom the tool is written', async () => {
    tools = [imageTool()]
    const response = await ask({
      ...gateway,
      protocol: 'chat.completions',
      model: 'openai/gpt-5',
      stream: false,
      more: { modalities: ['text', 'image'] },
    })
    expect(response.status).toBe(200)
    await response.text()
    expect(sent.at(-1)!.tools).toEqual([imageTool()])
    const record = await lastRecord(gateway)
    expect(imageLines(record)).toEqual(GPT_IMAGE_1)
    expect(record.held).toBeGreaterThan(record.bill)
  })

  test('are billed in a background response', async () => {
    tools = [imageTool()]
    const response = await fetch(`${gateway.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({ model: 'openai/gpt-5', input: 'Draw', background: true, tools: [imageTool()] }),
    })
    const { id } = (await response.json()) as { id: string }
    for (let status = ''; status !== 'completed'; ) {
      const polled = await fetch(`${gateway.url}/v1/responses/${id}`, {
        headers: { authorization: `Bearer ${gateway.key}` },
      })
      ;({ status } = (await polled.json()) as { status: string })
    }
    let record = await lastRecord(gateway)
    while (`resp_${record.id}` !== id) record = await lastRecord(gateway)
    expect(imageLines(record)).toEqual(GPT_IMAGE_1)
  })
})

describe('an image model without a price', () => {
  test('is refused to several accounts, with the setting that prices it', async () => {
    const refused = await ask({
      ...shared,
      protocol: 'responses',
      model: 'openai/gpt-5',
      stream: false,
      more: { tools: [imageTool({ model: 'gpt-image-99' })] },
    })
    expect(await failureOf(refused, 'responses')).toMatchObject({
      status: 400,
      message:
        'tools[0]: images of gpt-image-99 have no known price; leave it out. Its operator can set ' +
        'models.openai/gpt-5.price with image, or billing.unpricedTools: free, in sluice.yaml.',
    })
    expect((await respond('openai/gpt-5', imageTool(), false, shared)).bill).toBe(OWN + sum(GPT_IMAGE_1))
  })

  test('is listed without a rate for one account', async () => {
    tools = [imageTool({ model: 'gpt-image-99' })]
    const record = await respond('openai/gpt-5', imageTool({ model: 'gpt-image-99' }))
    expect(imageLines(record)).toEqual({
      image_tool_prompt: 0n,
      image_tool_completion: 0n,
    })
    expect(record.bill).toBe(OWN)
  })
})
