import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { snippets } from '../../console/snippets/index.ts'

const page = readFileSync(join(import.meta.dir, '../../docs/clients.md'), 'utf8')
const ADDRESS = 'http://127.0.0.1:4310'
/** The page has a client's blocks below a heading, or all that it needs in a row of a table. */
const sectionOf = (name: string): string | undefined =>
  page.split(/^### /m).find((section) => section.startsWith(`${name}\n`))
const rowOf = (name: string): string | undefined =>
  page
    .split('\n')
    .find((line) => line.startsWith(`| ${name} `) || line.startsWith(`| \`${name}\` `) || line.startsWith(`| ${name}:`))

/** Models of the page's examples, so that lines can be equal. */
const MODELS: Record<string, string> = {
  'Claude Code': 'sandbox/chat',
  Codex: 'sandbox/messages',
  'Gemini CLI': 'sandbox/messages',
  opencode: 'sandbox/messages',
}

describe('the snippets of the console', () => {
  const agents = snippets.filter(({ kind }) => kind === 'agent')
  const libraries = snippets.filter(({ kind }) => kind === 'library')

  test('every client of the page has one, and the reverse', () => {
    const [agentTable = '', libraryTable = ''] = [...page.matchAll(/(?:^\|.*\n)+/gm)].map(([table]) => table)
    const namesIn = (table: string): string[] =>
      table
        .split('\n')
        .slice(2, -1)
        .map((row) =>
          row
            .split('|')[1]!
            .replaceAll('`', '')
            .replace(/[(:].*/, '')
            .trim(),
        )
    const headings = [...page.matchAll(/^### (.+)$/gm)].map(([, name = '']) => name)
    const named = [...headings.filter((name) => name !== 'Others'), ...namesIn(agentTable)]
    expect(agents.map(({ name }) => name)).toEqual(named)
    expect(new Set(libraries.map(({ name }) => name))).toEqual(new Set(['curl', ...namesIn(libraryTable)]))
  })

  test.each(agents.filter(({ name }) => MODELS[name] !== undefined))(
    '$name: every line is in its section',
    (snippet) => {
      const section = sectionOf(snippet.name) ?? ''
      const values = { address: ADDRESS, key: '$SLUICE_KEY', model: MODELS[snippet.name]! }
      const lines = snippet
        .parts(values)
        .flatMap(({ text }) => text.split('\n'))
        .filter((line) => line !== '' && !line.startsWith('export SLUICE_KEY='))
      expect(lines.length).toBeGreaterThan(2)
      expect(lines.filter((line) => !section.includes(line))).toEqual([])
    },
  )

  test.each(snippets.filter(({ name }) => MODELS[name] === undefined && name !== 'curl'))(
    '$name: the address is that of its row',
    (snippet) => {
      const values = { address: ADDRESS, key: '$SLUICE_KEY', model: '<provider>/<model>' }
      const text = snippet
        .parts(values)
        .map((part) => part.text)
        .join('\n')
      const [, path = ''] = /http:\/\/127\.0\.0\.1:4310([\w/]*)/.exec(text) ?? []
      const row = rowOf(snippet.name) ?? `| ${snippet.name}: missing`
      expect(`${row} has ${path === '' ? 'no path' : path}`).toMatch(
        path === '' ? /4310['`]|4310 / : /(?:4310|\.\.\.|with) ?`?\/v1/,
      )
    },
  )

  test('each has the address, the key and the model, and none is left out', () => {
    for (const { name, parts } of snippets) {
      const text = parts({ address: 'https://sluice.test', key: 'sk-ai-v1-x', model: 'acme/large' })
        .map((part) => part.text)
        .join('\n')
      for (const value of ['https://sluice.test', 'sk-ai-v1-x', 'acme/large'])
        expect(`${name}: ${text}`).toContain(value)
    }
  })
})
