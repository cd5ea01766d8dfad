import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'

/**
 * Recorded exchanges with providers. They are licensed by their sources and kept outside the repository: tests are
 * skipped where they are absent.
 */
const folder = join(import.meta.dir, '../../../shared/recordings')

export const haveRecordings = existsSync(join(folder, 'INDEX.jsonl'))

/** Edited by hand, so that its deltas contradict its finished item. */
export const INCONSISTENT = 'vercel-ai__openai-openai-shell-container.1'

export type Recording = {
  id: string
  protocol: ConversationName
  stream: boolean
  status: number
  kinds: string[]
  contentType: string
  headers: Record<string, string>
  request(): Record<string, unknown> | undefined
  response(): Uint8Array<ArrayBuffer>
}

const PROTOCOLS: Record<string, ConversationName> = {
  'openai-chat': 'chat.completions',
  'openai-responses': 'responses',
  'anthropic-messages': 'messages',
  'google-generate-content': 'generateContent',
}

type Row = {
  id: string
  protocol: string
  stream: boolean
  status: number
  kinds: string[]
  files: { request?: string; response: string }
  responseHeaders: Record<string, string>
}

const rows: Row[] = haveRecordings
  ? readFileSync(join(folder, 'INDEX.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Row)
  : []

/** Number of recorded exchanges of each protocol, including those that are not conversations. */
export const INDEXED: Record<string, number> = {}
for (const { protocol } of rows) INDEXED[protocol] = (INDEXED[protocol] ?? 0) + 1

export function recordings(): Recording[] {
  return rows.flatMap((row) => {
    const protocol = PROTOCOLS[row.protocol]
    if (protocol === undefined) return []
    const isStream = row.files.response.endsWith('.sse')
    return [
      {
        id: row.id,
        protocol,
        status: row.status,
        kinds: row.kinds,
        headers: row.responseHeaders,
        stream: isStream,
        contentType: isStream ? 'text/event-stream' : 'application/json',
        request: () => {
          const file = row.files.request
          if (file === undefined || !file.endsWith('.json')) return undefined
          return JSON.parse(readFileSync(join(folder, file), 'utf8')) as Record<string, unknown>
        },
        response: () => new Uint8Array(readFileSync(join(folder, row.files.response))),
      },
    ]
  })
}

/** Frames of a stream, split without the gateway's FrameSplitter. */
export const framesOf = (text: string): Frame[] =>
  text
    .replaceAll('\r\n', '\n')
    .split('\n\n')
    .flatMap((chunk) => {
      const lines = chunk.split('\n')
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart())
      const event = lines
        .find((line) => line.startsWith('event:'))
        ?.slice(6)
        .trim()
      return data.length === 0 ? [] : [{ ...(event === undefined ? {} : { event }), data: data.join('\n') }]
    })
