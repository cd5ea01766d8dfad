import type { Snippet, SnippetValues } from './snippet.ts'

type Write = (values: SnippetValues) => string

/** One file of code, as its library wants the address. */
const library = (name: string, title: string, text: Write): Snippet => ({
  name,
  kind: 'library',
  parts: (values) => [{ title, text: text(values) }],
})

export const libraries: readonly Snippet[] = [
  library(
    'curl',
    'Terminal',
    ({ address, key, model }) => `curl ${address}/v1/chat/completions \\
  -H 'authorization: Bearer ${key}' \\
  -H 'content-type: application/json' \\
  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`,
  ),
  library(
    'openai',
    'JavaScript',
    ({ address, key, model }) => `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${address}/v1', apiKey: '${key}' })
const response = await client.responses.create({ model: '${model}', input: 'Hello' })
console.log(response.output_text)`,
  ),
  library(
    '@anthropic-ai/sdk',
    'JavaScript',
    ({ address, key, model }) => `import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: '${address}', apiKey: '${key}' })
const message = await client.messages.create({
  model: '${model}',
  max_tokens: 1024,
  messages: [{ role: 'user', content: 'Hello' }],
})
console.log(message.content)`,
  ),
  library(
    '@google/genai',
    'JavaScript',
    ({ address, key, model }) => `import { GoogleGenAI } from '@google/genai'

const client = new GoogleGenAI({ apiKey: '${key}', vertexai: true, httpOptions: { baseUrl: '${address}' } })
const response = await client.models.generateContent({ model: '${model}', contents: 'Hello' })
console.log(response.text)`,
  ),
  library(
    'replicate',
    'JavaScript',
    ({ address, key, model }) => `import Replicate from 'replicate'

const client = new Replicate({ baseUrl: '${address}/v1', auth: '${key}' })
const prediction = await client.predictions.create({ model: '${model}', input: { prompt: 'Hello' } })
console.log(await client.wait(prediction))`,
  ),
  library(
    'AI SDK',
    'JavaScript',
    ({ address, key, model }) => `import { createOpenAI } from '@ai-sdk/openai'
import { generateText } from 'ai'

const sluice = createOpenAI({ baseURL: '${address}/v1', apiKey: '${key}' })
const { text } = await generateText({ model: sluice('${model}'), prompt: 'Hello' })
console.log(text)`,
  ),
  library(
    'LangChain',
    'JavaScript',
    ({ address, key, model }) => `import { ChatOpenAI } from '@langchain/openai'

const model = new ChatOpenAI({ model: '${model}', apiKey: '${key}', configuration: { baseURL: '${address}/v1' } })
console.log((await model.invoke('Hello')).content)`,
  ),
]
