import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI, { toFile } from 'openai'
import { startGateway, type Gateway } from '../server.ts'

/** Uploaded files, referenced by id in requests of the official clients. */

const PDF = new TextEncoder().encode('%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n')
const PNG = Uint8Array.from(
  Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=', 'base64'),
)

let gateway: Gateway
let openai: OpenAI
beforeAll(async () => {
  gateway = await startGateway()
  openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 0 })
})
afterAll(() => gateway.stop())

const upload = async (bytes: Uint8Array, name: string): Promise<string> =>
  (await openai.files.create({ file: await toFile(bytes, name), purpose: 'user_data' })).id

/** The attachments as the sandbox describes them in its answer. */
const [SENT_PDF, SENT_PNG] = [`application/pdf ${PDF.length} bytes`, `image/png ${PNG.length} bytes`]

for (const model of ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini']) {
  test(`OpenAI's client sends an uploaded PDF in chat completions to ${model}`, async () => {
    const file_id = await upload(PDF, 'a.pdf')
    const { choices } = await openai.chat.completions.create({
      model,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'file', file: { file_id } },
          ],
        },
      ],
    })
    expect(choices[0]!.message.content).toContain(`You sent ${SENT_PDF}.`)
  })

  test(`OpenAI's client sends an uploaded PDF and an uploaded image in responses to ${model}`, async () => {
    const [pdf, png] = [await upload(PDF, 'a.pdf'), await upload(PNG, 'a.png')]
    const content = [
      { type: 'input_text' as const, text: 'Look' },
      { type: 'input_file' as const, file_id: pdf },
      { type: 'input_image' as const, file_id: png, detail: 'auto' as const },
    ]
    const { output_text } = await openai.responses.create({ model, input: [{ role: 'user', content }] })
    expect(output_text).toContain(`You sent ${SENT_PDF}, ${SENT_PNG}.`)
  })

  test(`Anthropic's client sends an uploaded PDF and an uploaded image to ${model}`, async () => {
    const client = new Anthropic({ baseURL: gateway.url, apiKey: gateway.key, maxRetries: 0 })
    const [pdf, png] = [await upload(PDF, 'a.pdf'), await upload(PNG, 'a.png')]
    const { content } = await client.beta.messages.create({
      model,
      max_tokens: 1000,
      betas: ['files-api-2025-04-14'],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'document', source: { type: 'file', file_id: pdf } },
            { type: 'image', source: { type: 'file', file_id: png } },
          ],
        },
      ],
    })
    const text = content.find((block) => block.type === 'text')!.text
    expect(text).toContain(`You sent ${SENT_PDF}, ${SENT_PNG}.`)
    const refused = await client.beta.messages
      .countTokens({
        model,
        messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'file-0' } }] }],
      })
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Anthropic.NotFoundError)
  })

  test(`Google's client sends an uploaded PDF and an uploaded image to ${model}`, async () => {
    const client = new GoogleGenAI({ apiKey: gateway.key, httpOptions: { baseUrl: gateway.url } })
    const [pdf, png] = [await upload(PDF, 'a.pdf'), await upload(PNG, 'a.png')]
    const { text } = await client.models.generateContent({
      model,
      contents: [
        {
          role: 'user',
          parts: [
            { text: 'Look' },
            { fileData: { fileUri: `${gateway.url}/v1/files/${pdf}`, mimeType: 'application/pdf' } },
            { fileData: { fileUri: png, mimeType: 'image/png' } },
          ],
        },
      ],
    })
    expect(text).toContain(`You sent ${SENT_PDF}, ${SENT_PNG}.`)
  })
}
