export type Started = { child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>; url: string; lines: string[] }

/** Reads the output of a server until it listens. Throws with its stderr if it ends before. */
export async function listening(child: Started['child']): Promise<Started> {
  const decoder = new TextDecoder()
  const reader = child.stdout.getReader()
  for (let text = ''; ; ) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`the server ended before it listened: ${await new Response(child.stderr).text()}`)
    text += decoder.decode(value, { stream: true })
    const url = /^listening on (http\S+)\n/m.exec(text)?.[1]
    if (url !== undefined) return { child, url, lines: text.trim().split('\n') }
  }
}
