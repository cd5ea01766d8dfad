import type { ConversationName } from '../../src/generation/request.ts'

export type Route = { client: ConversationName; provider: ConversationName; stream: boolean }

const VERDICTS = ['carried', 'approximated', 'left out (told)', 'refused', 'lost'] as const
export type Verdict = (typeof VERDICTS)[number]

export type Cell = { verdict: Verdict; why: string[] }

/** The worst of several, with the reasons of all of that kind. */
export function worst(cells: Cell[]): Cell {
  const verdict = VERDICTS[Math.max(...cells.map((cell) => VERDICTS.indexOf(cell.verdict)))]!
  return { verdict, why: [...new Set(cells.filter((cell) => cell.verdict !== 'carried').flatMap(({ why }) => why))] }
}

/** What an answer cannot say in a client's protocol, and what it says instead. */
type Nature = { fact: string; client: ConversationName; stream?: boolean; arrives(want: unknown, got: unknown): boolean; why: string }

const isCut = (want: unknown, got: unknown): boolean => got === String(want).replaceAll('"cut off"', '{}')
const hasSource = (want: unknown, got: unknown): boolean => Bun.deepEquals(sourcesOf(want), sourcesOf(got))
const sourcesOf = (citations: unknown): unknown => (citations as { url: string; title: string }[]).map(({ url, title }) => [url, title])
const isAbsent = (_: unknown, got: unknown): boolean => got === undefined || got === 0

export const NATURE: Nature[] = [
  ...(['chat.completions', 'responses', 'generateContent'] as const).map((client) => ({ fact: 'stop sequence', client, arrives: isAbsent, why: 'that the answer stopped is said, but not at which sequence' })),
  { fact: 'cache writes', client: 'generateContent', arrives: isAbsent, why: 'tokens written to a cache are counted as prompt tokens' },
  { fact: 'citations', client: 'messages', arrives: hasSource, why: 'a citation covers the whole block of text, not a passage in it' },
  { fact: 'calls', client: 'generateContent', arrives: isCut, why: 'arguments that were cut off are {}, as an object cannot be cut' },
  { fact: 'calls', client: 'messages', stream: false, arrives: isCut, why: 'arguments that were cut off are {}, as an object cannot be cut' },
]

const SIGNS: Record<Verdict, string> = { carried: '✓', approximated: '≈', 'left out (told)': '–', refused: '✗', lost: 'LOST' }

const SHORT: Record<ConversationName, string> = { 'chat.completions': 'chat', responses: 'responses', messages: 'messages', generateContent: 'gemini' }

/** One row a route, one column a scenario; below it each sign that is no ✓ with its reasons. */
export function printTable(names: ConversationName[], scenarios: string[], cellOf: (scenario: string, route: Route) => Cell): string {
  const routes = names.flatMap((client) => names.map((provider) => ({ client, provider })))
  const rows = routes.map(({ client, provider }) => {
    const signs = scenarios.map((scenario) => {
      const [whole, streamed] = [false, true].map((stream) => SIGNS[cellOf(scenario, { client, provider, stream }).verdict])
      return whole === streamed ? whole! : `${whole} / ${streamed}`
    })
    return `| ${SHORT[client]} | ${SHORT[provider]} | ${signs.join(' | ')} |\n`
  })
  const notes = new Map<string, Set<string>>()
  for (const { client, provider } of routes) for (const scenario of scenarios) for (const stream of [false, true]) {
    for (const why of cellOf(scenario, { client, provider, stream }).why) {
      const note = `${scenario}: ${why}`
      notes.set(note, (notes.get(note) ?? new Set()).add(`${SHORT[client]} → ${SHORT[provider]}`))
    }
  }
  const order = [...notes].sort(([a], [b]) => scenarios.indexOf(a.split(': ')[0]!) - scenarios.indexOf(b.split(': ')[0]!))
  const told = order.map(([note, where]) => `- ${note} (${[...where].join(', ')})\n`).join('')
  return `\n| client | provider | ${scenarios.join(' | ')} |\n|${'---|'.repeat(scenarios.length + 2)}\n${rows.join('')}\n${told}\n`
}
