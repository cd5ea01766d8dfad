import type { Snippet } from './snippet.ts'

export const geminiCli: Snippet = {
  name: 'Gemini CLI',
  kind: 'agent',
  parts: ({ address, key, model }) => [
    {
      title: 'Terminal',
      text: [
        'export GOOGLE_GENAI_USE_VERTEXAI=true',
        `export GOOGLE_API_KEY=${key}`,
        `export GOOGLE_VERTEX_BASE_URL=${address}`,
        `gemini -m ${model}`,
      ].join('\n'),
    },
  ],
}
