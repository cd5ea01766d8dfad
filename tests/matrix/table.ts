import type { ConversationName } from '../../src/generation/request.ts'

/** The table of docs/translation.md, from the verdicts on all routes. */

export type Route = { client: ConversationName; provider: ConversationName; stream: boolean }

const VERDICTS = ['carried', 'approximated', 'dropped (reported)', 'refused', 'lost'] as const
export type Verdict = (typeof VERDICTS)[number]

export type Cell = { verdict: Verdict; reasons: string[] }

/** The worst verdict, with the reasons of all verdicts but `carried`. */
export function worst(cells: Cell[]): Cell {
  const verdict = VERDICTS[Math.max(...cells.map((cell) => VERDICTS.indexOf(cell.verdict)))]!
  return {
    verdict,
    reasons: [...new Set(cells.filter((cell) => cell.verdict !== 'carried').flatMap(({ reasons }) => reasons))],
  }
}

const SYMBOLS: Record<Verdict, string> = {
  carried: '✓',
  approximated: '≈',
  'dropped (reported)': '–',
  refused: '✗',
  lost: 'LOST',
}

const SHORT_NAMES: Record<ConversationName, string> = {
  'chat.completions': 'chat',
  responses: 'responses',
  messages: 'messages',
  generateContent: 'gemini',
}

/** A table with a row per route and a column per scenario, and one of the reasons for all symbols but ✓. */
export function tableOf(
  names: ConversationName[],
  scenarios: string[],
  cellOf: (scenario: string, route: Route) => Cell,
): string {
  const pairs = names.flatMap((client) => names.map((provider) => ({ client, provider })))
  const rows = pairs.map((pair) => {
    const symbols = scenarios.map((scenario) => {
      const [whole, streamed] = [false, true].map((stream) => SYMBOLS[cellOf(scenario, { ...pair, stream }).verdict])
      return whole === streamed ? whole! : `${whole} / ${streamed}`
    })
    return rowOf([SHORT_NAMES[pair.client], SHORT_NAMES[pair.provider], ...symbols])
  })
  const reasonRows = scenarios.flatMap((scenario) => {
    const routes = new Map<string, Set<string>>()
    for (const { client, provider } of pairs)
      for (const stream of [false, true])
        for (const reason of cellOf(scenario, { client, provider, stream }).reasons)
          routes.set(reason, (routes.get(reason) ?? new Set()).add(`${SHORT_NAMES[client]} → ${SHORT_NAMES[provider]}`))
    return [...routes].map(([reason, where]) => rowOf([scenario, reason, [...where].join(', ')]))
  })
  return [
    '\n',
    rowOf(['client', 'provider', ...scenarios]),
    `|${'---|'.repeat(scenarios.length + 2)}\n`,
    ...rows,
    '\n',
    rowOf(['scenario', 'reason', 'client → provider']),
    '|---|---|---|\n',
    ...reasonRows,
    '\n',
  ].join('')
}

const rowOf = (values: string[]): string => `| ${values.join(' | ')} |\n`
