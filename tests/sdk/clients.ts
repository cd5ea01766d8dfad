import { aiAnthropic, aiGoogle, aiOpenai, aiOpenaiChat } from './ai.ts'
import { anthropic } from './anthropic.ts'
import type { Client, ToolSpec } from './client.ts'
import { genaiGemini, genaiVertex } from './genai.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

/** The official SDKs, and the AI SDK with each of its providers. */
export const CLIENTS: Client[] = [
  openaiChat,
  openaiResponses,
  anthropic,
  genaiGemini,
  genaiVertex,
  aiOpenai,
  aiOpenaiChat,
  aiAnthropic,
  aiGoogle,
]

export const WEATHER: ToolSpec = {
  name: 'get_weather',
  description: 'Weather of a city',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 2 } },
    required: ['city', 'days'],
    additionalProperties: false,
  },
}

export const TIME: ToolSpec = {
  name: 'get_time',
  description: 'Time in a zone',
  schema: {
    type: 'object',
    properties: { zone: { type: 'string', enum: ['UTC', 'CET'] } },
    required: ['zone'],
    additionalProperties: false,
  },
}
