import type { ConversationName } from '../../src/generation/request.ts'

/** The coverage table of docs/translation.md from the results of each route. */

export type Route = { client: ConversationName; provider: ConversationName; stream: boolean }

const VERDICTS = ['carried', 'approximated', 'dropped (reported)', 'refused', 'lost'] as const
export type Verdict = (typeof VERDICTS)[number]

export type Cell = { verdict: Verdict; why: string[] }

/** The worst of several results, with the reasons of all results of that kind. */
export function worst(cells: Cell[]): Cell {
  const verdict = VERDICTS[Math.max(...cells.map((cell) => VERDICTS.indexOf(cell.verdict)))]!
  return { verdict, why: [...new Set(cells.filter((cell) => cell.verdict !== 'carried').flatMap(({ why }) => why))] }
}

const SIGNS: Record<Verdict, string> = {
  carried: '✓',
  approximated: '≈',
  'dropped (reported)': '–',
  refused: '✗',
  lost: 'LOST',
}

const SHORT: Record<ConversationName, string> = {
  'chat.completions': 'chat',
  responses: 'responses',
  messages: 'messages',
  generateContent: 'gemini',
}

/** A row per route and a column per scenario; then a table with the reasons for all signs other than ✓. */
export function printTable(
  names: ConversationName[],
  scenarios: string[],
  cellOf: (scenario: string, route: Route) => Cell,
): string {
  const routes = names.flatMap((client) => names.map((provider) => ({ client, provider })))
  const rows = routes.map(({ client, provider }) => {
    const signs = scenarios.map((scenario) => {
      const [whole, streamed] = [false, true].map(
        (stream) => SIGNS[cellOf(scenario, { client, provider, stream }).verdict],
      )
      return whole === streamed ? whole! : `${whole} / ${streamed}`
    })
    return `| ${SHORT[client]} | ${SHORT[provider]} | ${signs.join(' | ')} |\n`
  })
  const notes = new Map<string, Set<string>>()
  for (const { client, provider } of routes)
    for (const scenario of scenarios)
      for (const stream of [false, true]) {
        for (const why of cellOf(scenario, { client, provider, stream }).why) {
          const note = `${scenario} | ${why}`
          notes.set(note, (notes.get(note) ?? new Set()).add(`${SHORT[client]} → ${SHORT[provider]}`))
        }
      }
  const order = [...notes].sort(
    ([a], [b]) => scenarios.indexOf(a.split(' | ')[0]!) - scenarios.indexOf(b.split(' | ')[0]!),
  )
  const reasons = order.map(([note, where]) => `| ${note} | ${[...where].join(', ')} |\n`).join('')
  return `\n| client | provider | ${scenarios.join(' | ')} |\n|${'---|'.repeat(scenarios.length + 2)}\n${rows.join('')}\n| scenario | reason | client → provider |\n|---|---|---|\n${reasons}\n`
}
