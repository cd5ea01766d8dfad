/**
 * A story is a text file: a sentence of intent, then sections that begin with `-- name: detail`. Known sections, in
 * order:
 * `client asks: METHOD PATH` (JSON body; headers as name=value behind the path), `provider PROTOCOL is asked: PATH`
 * (expected JSON body), `provider answers: STATUS TYPE` (body as sent),
 * `client hears: STATUS` (expected body; ids and times as <id>, <time>), `headers` (expected response headers, one a
 * line).
 */
export type Story = { intent: string; sections: Section[] }
export type Section = { name: string; detail: string; body: string }

export function parseStory(text: string): Story {
  const [intent = '', ...rest] = text.split(/^-- /m)
  return {
    intent: intent.trim(),
    sections: rest.map((section) => {
      const end = section.indexOf('\n')
      const [name = '', ...detail] = section.slice(0, end).split(': ')
      return { name: name.trim(), detail: detail.join(': ').trim(), body: section.slice(end + 1).replace(/\n+$/, '\n') }
    }),
  }
}

export const printStory = ({ intent, sections }: Story): string =>
  `${intent}\n\n${sections.map(({ name, detail, body }) => `-- ${name}${detail === '' ? '' : `: ${detail}`}\n${body.replace(/\n+$/, '\n')}`).join('\n')}`

/** Ids and times differ from run to run; each distinct one gets a number, so that sameness is still seen. */
export function stable(text: string): string {
  const seen = new Map<string, string>()
  const numbered = (word: string, kind: string): string => {
    if (!seen.has(word))
      seen.set(word, `<${kind}${[...seen.values()].filter((value) => value.startsWith(`<${kind}`)).length + 1}>`)
    return seen.get(word)!
  }
  return text
    .replace(/\b(chatcmpl-|resp_|msg_|rs_|fc_|ctc_|in_|req_)?[0-9a-f]{32}(_\d+)?\b/g, (id) => numbered(id, 'id'))
    .replace(/"(created|created_at|completed_at)":\s?\d{9,}/g, '"$1":<time>')
    .replace(/"createTime":\s?"[^"]+"/g, '"createTime":<time>')
}
