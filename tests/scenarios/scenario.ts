/**
 * A scenario is a text file: a sentence about its subject, then sections that begin with `-- name: detail`, in this
 * order:
 * - `client request: METHOD PATH`: the body; headers as name=value after the path.
 * - `provider request: PATH`: the expected body.
 * - `provider response: STATUS TYPE`: the body as sent; headers as name=value after the type.
 * - `client response: STATUS`: the expected body; ids and times as <id1>, <time>.
 * - `client response headers`: the expected values, one header per line.
 */
export type Scenario = { intent: string; sections: Section[] }
export type Section = { name: string; detail: string; body: string }

export function parseScenario(text: string): Scenario {
  const [intent = '', ...rest] = text.split(/^-- /m)
  return {
    intent: intent.trim(),
    sections: rest.map((section) => {
      const end = section.indexOf('\n')
      const [name = '', ...detail] = section.slice(0, end).split(': ')
      return { name: name.trim(), detail: detail.join(': ').trim(), body: section.slice(end + 1).trim() }
    }),
  }
}

export const printScenario = ({ intent, sections }: Scenario): string =>
  `${[
    intent,
    ...sections.map(({ name, detail, body }) => `-- ${name}${detail === '' ? '' : `: ${detail}`}\n${body}`),
  ].join('\n\n')}\n`

/** Ids and times differ from run to run; each distinct one gets a number, so that equal ones are still seen. */
export function withoutIds(text: string): string {
  const seen = new Map<string, string>()
  const numbered = (id: string): string => {
    if (!seen.has(id)) seen.set(id, `<id${seen.size + 1}>`)
    return seen.get(id)!
  }
  return text
    .replace(/\b(chatcmpl-|resp_|msg_|rs_|fc_|ctc_|in_|req_)?[0-9a-f]{32}(_\d+)?\b/g, numbered)
    .replace(/"(created|created_at|completed_at)":(\s?)\d{9,}/g, '"$1":$2<time>')
    .replace(/"createTime":(\s?)"[^"]+"/g, '"createTime":$1<time>')
}

const WIDTH = 110

/** JSON on as few lines as fit the width, its numbers as they were spelled; any other text as it is. */
export function formatJson(text: string): string {
  try {
    return print(JSON.parse(text, readNumber), '', 0)
  } catch {
    return text.replaceAll('\r\n', '\\r\\n')
  }
}

class SpelledNumber {
  constructor(readonly source: string) {}
}

const readNumber = (_name: string, value: unknown, context?: { source?: string }): unknown =>
  typeof value === 'number' ? new SpelledNumber(context?.source ?? String(value)) : value

/** `before`: characters on the line between the indentation and the value. */
function print(value: unknown, indent: string, before: number): string {
  const flat = printFlat(value)
  if (typeof value !== 'object' || value === null || indent.length + before + flat.length <= WIDTH) return flat
  const inner = `${indent}  `
  const lines = Array.isArray(value)
    ? value.map((item) => inner + print(item, inner, 0))
    : Object.entries(value).map(([name, member]) => {
        const key = `${JSON.stringify(name)}: `
        return inner + key + print(member, inner, key.length)
      })
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return lines.length === 0 ? flat : `${open}\n${lines.join(',\n')}\n${indent}${close}`
}

function printFlat(value: unknown): string {
  if (value instanceof SpelledNumber) return value.source
  if (Array.isArray(value)) return `[${value.map(printFlat).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${printFlat(member)}`)
  return `{${members.join(', ')}}`
}
