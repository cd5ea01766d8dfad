/** The values in a text to copy. `address`: the origin of Sluice, without a path. */
export type SnippetValues = { address: string; key: string; model: string }

/** A file or a command of a client's settings. */
type SnippetPart = { title: string; text: string }

export type Snippet = {
  /** As in docs/clients.md. */
  name: string
  kind: 'agent' | 'library'
  parts(values: SnippetValues): SnippetPart[]
}

/** The shell's line for clients that read the key from the environment. */
export const exportedKey = ({ key }: SnippetValues): SnippetPart => ({
  title: 'Terminal, once in each',
  text: `export SLUICE_KEY=${key}`,
})
