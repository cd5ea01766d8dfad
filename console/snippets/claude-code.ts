import type { Snippet } from './snippet.ts'

export const claudeCode: Snippet = {
  name: 'Claude Code',
  kind: 'agent',
  parts: ({ address, key, model }) => [
    {
      title: 'Terminal',
      text: [
        `export ANTHROPIC_BASE_URL=${address}`,
        `export ANTHROPIC_AUTH_TOKEN=${key}`,
        `claude --model ${model}`,
      ].join('\n'),
    },
  ],
}
