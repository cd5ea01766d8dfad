import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGatewayProcess } from '../server.ts'
import { storeIn } from '../stores.ts'

const STREAMS = 5
/** The documented loss is 100 ms; a busy machine may run a process that much later. */
const LOSS_MS = 1_000
const CONFIG = `
billing: { unpriced: refuse, startingCredit: 100 }
models: { m: { endpoints: [{ provider: sandbox, model: messages }], price: { prompt: 1, completion: 10 } } }
`

/** Characters of the text of a stream so far, and when. */
type Received = { id: string; at: number; characters: number }[]

test('a crash of the server loses of its streams only what was received just before', async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const gateway = await startGatewayProcess({ data, config: CONFIG })
  const streams: Received[] = Array.from({ length: STREAMS }, () => [])
  const read = async (received: Received): Promise<void> => {
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({
        model: 'm',
        stream: true,
        max_tokens: 10_000,
        messages: [{ role: 'user', content: `[[reply: ${'abcd '.repeat(1_000)}]] [[chunk: 1]] [[pace: 10ms]]` }],
      }),
    })
    const id = response.headers.get('x-generation-id')!.replace('msg_', '')
    let [text, characters] = ['', 0]
    for await (const bytes of response.body!) {
      text += Buffer.from(bytes).toString()
      const end = text.lastIndexOf('\n\n')
      for (const [, data] of text.slice(0, end + 1).matchAll(/^data: (.*)$/gm))
        characters += (JSON.parse(data!) as { delta?: { text?: string } }).delta?.text?.length ?? 0
      text = text.slice(end + 1)
      received.push({ id, at: performance.now(), characters })
    }
  }
  try {
    const reading = streams.map((received) => read(received).catch(() => {}))
    const begun = performance.now()
    while (performance.now() - begun < 3_000 || streams.some((received) => (received.at(-1)?.characters ?? 0) < 500))
      await Bun.sleep(10)
    const killedAt = performance.now()
    gateway.kill('SIGKILL')
    await Promise.all([gateway.exited, ...reading])
    const next = await startGatewayProcess({ data, config: CONFIG })
    await next.stop()
    const store = await storeIn(data)
    const records = await store.ledger.generations(undefined, 100)
    await store.close()
    for (const received of streams) {
      const record = records.find(({ id }) => id === received[0]!.id)
      expect(record).toMatchObject({ ending: 'crashed', estimated: true, estimation: 'checkpoint' })
      const { characters } = received.findLast(({ at }) => at < killedAt - LOSS_MS)!
      expect(record!.usage.outputTokens * 4).toBeGreaterThanOrEqual(characters)
    }
  } finally {
    gateway.kill('SIGKILL')
    rmSync(data, { recursive: true, force: true })
  }
}, 30_000)
