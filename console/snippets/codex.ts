import { exportedKey, type Snippet } from './snippet.ts'

export const codex: Snippet = {
  name: 'Codex',
  kind: 'agent',
  parts: (values) => [
    {
      title: '~/.codex/config.toml',
      text: [
        'model_provider = "sluice"',
        `model = "${values.model}"`,
        '',
        '[model_providers.sluice]',
        'name = "Sluice"',
        `base_url = "${values.address}/v1"`,
        'wire_api = "responses"',
        'env_key = "SLUICE_KEY"',
      ].join('\n'),
    },
    exportedKey(values),
  ],
}
