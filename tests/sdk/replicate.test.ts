import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Replicate from 'replicate'
import { startGateway, type Gateway } from '../server.ts'
import { predictionProvider, type PredictionProvider } from '../gateway/predicting.ts'

/** Replicate's official client, with its base URL set to the gateway. */

let gateway: Gateway
let provider: PredictionProvider
let client: Replicate
beforeAll(async () => {
  provider = predictionProvider()
  gateway = await startGateway({
    config: `
limits: { requestsPerMinute: 100000 }
providers: { up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none } }
models: { maker/flux: { endpoints: [{ provider: up, model: "maker/flux:${'ab'.repeat(32)}" }] } }
`,
  })
  client = new Replicate({ baseUrl: `${gateway.url}/v1`, auth: gateway.key, useFileOutput: false })
  provider.onMade = (made) =>
    void Object.assign(made, { status: 'succeeded', output: [`made of ${String(made.input.prompt)}`] })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop()
})

describe('run()', () => {
  test('running a text model returns its text', async () => {
    expect(await client.run('sandbox/chat', { input: { prompt: 'Hello' } })).toContain('You said: "Hello"' as never)
  })

  test('running an image model returns the URLs of its images', async () => {
    const urls = (await client.run('sandbox/image', {
      input: { prompt: 'A lighthouse', size: '128x64', n: 2 },
    })) as string[]
    expect(urls.length).toBe(2)
    for (const url of urls) expect((await fetch(url)).headers.get('content-type')).toBe('image/png')
  })

  test('running a prediction model, or a version of one, returns its output', async () => {
    expect(await client.run('maker/flux', { input: { prompt: 'a model' } })).toEqual(['made of a model'])
    expect(await client.run(`maker/flux:${'ab'.repeat(32)}`, { input: { prompt: 'a version' } })).toEqual([
      'made of a version',
    ])
    expect(await client.run('sandbox/prediction', { input: { prompt: 'a red fox', duration: '100ms' } })).toEqual([
      'a ',
      'red ',
      'fox',
    ])
  })

  test.each([
    { mode: 'block', timeout: 1 },
    { mode: 'poll', interval: 50 },
  ] as const)('run() waits until the prediction ends: %p', async (wait) => {
    const seen: string[] = []
    const output = await client.run(
      'sandbox/prediction',
      { input: { prompt: 'a red fox', duration: '1500ms', logs: 3 }, wait },
      ({ status, logs }) => void seen.push(`${status} ${logs?.split('\n').length}`),
    )
    expect(output).toEqual(['a ', 'red ', 'fox'])
    expect(seen[0]).toStartWith('starting')
    expect(seen.at(-1)).toBe('succeeded 4')
  })

  test('running a prediction that fails throws its error', async () => {
    const failed = client.run('sandbox/prediction', { input: { prompt: 'a', duration: '10ms', fail: 'No foxes.' } })
    expect(await failed.then(String, ({ message }: Error) => message)).toBe('Prediction failed: No foxes.')
  })

  test('running an unknown model fails with the nearest name', async () => {
    expect(await client.run('sandbox/chta', { input: {} }).then(String, ({ message }: Error) => message)).toContain(
      'Nearest: sandbox/chat',
    )
  })

  test('aborting run() cancels the prediction', async () => {
    const stop = new AbortController()
    let id = ''
    const running = client.run(
      'sandbox/prediction',
      { input: { prompt: 'a', hang: true }, wait: { mode: 'poll', interval: 20 }, signal: stop.signal },
      (prediction) => {
        id = prediction.id
        if (prediction.status === 'processing') stop.abort()
      },
    )
    await running.catch(() => {})
    // The client passes its aborted signal to no other call, and cancels the prediction.
    expect((await client.predictions.get(id)).status).toBe('canceled')
  })
})

describe('predictions', () => {
  test('a prediction is created, retrieved, waited for and listed', async () => {
    const created = await client.predictions.create({ model: 'maker/flux', input: { prompt: 'one' } })
    expect(created).toMatchObject({ status: 'starting', input: { prompt: 'one' }, source: 'api' })
    const { id } = created
    expect(await client.wait(await client.predictions.get(id), { interval: 20 })).toMatchObject({
      id,
      status: 'succeeded',
      output: ['made of one'],
    })
    const pages: string[][] = []
    for await (const page of client.paginate(client.predictions.list))
      pages.push(page.map((prediction) => prediction.id))
    expect(pages.flat()).toContain(id)
    expect(pages.flat()[0]).toBe(id)
  })

  test('a prediction is cancelled', async () => {
    const { id } = await client.predictions.create({
      version: 'sandbox/prediction:latest',
      input: { prompt: 'a', hang: true },
    })
    expect(await client.predictions.cancel(id)).toMatchObject({ id, status: 'canceled' })
    expect((await client.predictions.get(id)).completed_at).toEqual(expect.any(String))
  })

  test('creating a prediction with wait returns it completed', async () => {
    expect(
      await client.predictions.create({ model: 'maker/flux', input: { prompt: 'two' }, wait: true }),
    ).toMatchObject({ status: 'succeeded', output: ['made of two'] })
  })
})

test('the output of a text model is streamed', async () => {
  let text = ''
  const events: string[] = []
  for await (const { event, data } of client.stream('sandbox/chat', { input: { prompt: 'Hello' } })) {
    events.push(event)
    if (event === 'output') text += data
  }
  expect(text).toContain('You said: "Hello"')
  expect(events.at(-1)).toBe('done')
})

describe('files in an input', () => {
  const bytes = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  )

  test('a file in an input is uploaded and reaches the provider with its bytes', async () => {
    const output = await client.run('maker/flux', {
      input: { prompt: 'a blob', image: new Blob([bytes], { type: 'image/png' }), more: [bytes] },
    })
    expect(output).toEqual(['made of a blob'])
    const { image, more } = provider.made.at(-1)!.input as { image: string; more: string[] }
    for (const url of [image, ...more]) expect(url).toBe(`data:image/png;base64,${bytes.toString('base64')}`)
    const [newest] = (await client.predictions.list()).results
    expect((newest!.input as { image: string }).image).toStartWith(`${gateway.url}/v1/files/`)
  })

  test('a file of another account is not found, and no provider receives it', async () => {
    const made = provider.made.length
    const url = `${gateway.url}/v1/files/file-0123456789abcdef01234567`
    expect(
      await client
        .run('maker/flux', { input: { prompt: 'a', nested: [{ url }] } })
        .then(String, ({ message }: Error) => message),
    ).toContain('404')
    expect(
      await client
        .run('maker/flux', { input: { image: `${provider.url}/files/of-another` } })
        .then(String, ({ message }: Error) => message),
    ).toContain('404')
    const messages = [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-0123456789abcdef01234567' } }] }]
    expect(
      await client.run('sandbox/chat', { input: { messages } }).then(String, ({ message }: Error) => message),
    ).toContain('input.messages[0].content[0].file.file_id')
    expect(provider.made.length).toBe(made)
  })

  test('a text model reads an uploaded file', async () => {
    const file = await client.files.create(new File(['The word is xylophone.'], 'word.txt', { type: 'text/plain' }))
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Read this.' },
          { type: 'file', file: { file_id: file.id } },
        ],
      },
    ]
    const made = await client.predictions.create({ model: 'sandbox/chat', input: { messages }, wait: true })
    expect(made).toMatchObject({ status: 'succeeded', output: expect.any(String) })
    expect(await client.files.delete(file.id)).toBe(true)
  })
})
