import type { Snippet } from './snippet.ts'

export const otherAgents: readonly Snippet[] = [
  {
    name: 'Qwen Code',
    kind: 'agent',
    parts: ({ address, key, model }) => [
      {
        title: 'Terminal',
        text: `OPENAI_BASE_URL=${address}/v1 OPENAI_API_KEY=${key} qwen --auth-type openai -m ${model}`,
      },
    ],
  },
  {
    name: 'pi',
    kind: 'agent',
    parts: ({ address, key, model }) => [
      {
        title: 'models.json',
        text: `{
  "providers": {
    "sluice": {
      "baseUrl": "${address}/v1",
      "api": "openai-completions",
      "apiKey": "${key}",
      "models": [{ "id": "${model}" }]
    }
  }
}`,
      },
    ],
  },
  {
    name: 'Continue CLI',
    kind: 'agent',
    parts: ({ address, key, model }) => [
      {
        title: 'config.yaml',
        text: `name: Sluice
version: 1.0.0
schema: v1
models:
  - name: ${model}
    provider: openai
    model: ${model}
    apiBase: ${address}/v1
    apiKey: ${key}`,
      },
    ],
  },
  {
    name: 'Aider',
    kind: 'agent',
    parts: ({ address, key, model }) => [
      {
        title: 'Terminal',
        text: `OPENAI_API_BASE=${address}/v1 OPENAI_API_KEY=${key} aider --model openai/${model}`,
      },
    ],
  },
  {
    name: 'Cline CLI',
    kind: 'agent',
    parts: ({ address, key, model }) => [
      {
        title: 'Terminal',
        text: `cline auth openai-compatible --baseurl ${address}/v1 --apikey ${key} --modelid ${model}`,
      },
    ],
  },
]
