import { exportedKey, type Snippet } from './snippet.ts'

export const opencode: Snippet = {
  name: 'opencode',
  kind: 'agent',
  parts: (values) => [
    {
      title: 'opencode.json',
      text: `{
  "$schema": "https://opencode.ai/config.json",
  "provider": {
    "sluice": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Sluice",
      "options": { "baseURL": "${values.address}/v1", "apiKey": "{env:SLUICE_KEY}" },
      "models": {
        "${values.model}": { "attachment": true, "modalities": { "input": ["text", "image"], "output": ["text"] } }
      }
    }
  }
}`,
    },
    exportedKey(values),
    { title: 'Terminal', text: `opencode run --model sluice/${values.model} 'Hello'` },
  ],
}
