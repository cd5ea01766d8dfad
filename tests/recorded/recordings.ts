import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'

/**
 * Recorded exchanges with providers. They are licensed by their sources and kept outside the repository: tests are
 * skipped where they are absent.
 */
const folders = ['recordings', 'exams/held']
  .map((name) => join(import.meta.dir, '../../../shared', name))
  .filter((folder) => existsSync(join(folder, 'INDEX.jsonl')))

export const haveRecordings = folders.length > 0
export const haveAll = folders.length === 2

/** Edited by hand, so that its deltas contradict its finished item. */
export const INCONSISTENT = 'vercel-ai__openai-openai-shell-container.1'
/** Edited by hand: its first, fifth and last frame are not JSON. */
export const MALFORMED = 'vercel-ai__openai-parallel-tool-call-wrapper.1'
/** Several responses of a provider one after the other, of which the first one counts. */
export const SEVERAL = [
  'vercel-ai__anthropic-anthropic-programmatic-tool-calling.1',
  'vercel-ai__azure-azure-reasoning-encrypted-content.1',
  'vercel-ai__openai-openai-reasoning-encrypted-content.1',
]
/** Other ids of the same item in each frame. */
export const ROTATING = [
  'vercel-ai__openai-github-copilot-id-rotation.1',
  'pydantic-ai__openai-responses-openai-responses-raw-cot-stream-openrouter',
]

/** Made by hand: its usage has the prompt alone, which Google never sends beside a text. The text is counted. */
export const WITHOUT_OUTPUT = 'firebase-mock__vertexai-unary-success-partial-usage-metadata'

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

export type Row = {
  id: string
  protocol: string
  dialect: string
  stream: boolean
  status: number
  kinds: string[]
  /** Paths. */
  files: { request?: string; response: string }
  responseHeaders: Record<string, string>
}

const rows: Row[] = folders.flatMap((folder) =>
  readFileSync(join(folder, 'INDEX.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const row = JSON.parse(line) as Row
      for (const kind of ['request', 'response'] as const)
        if (row.files[kind] !== undefined) row.files[kind] = join(folder, row.files[kind])
      return row
    }),
)

/** The rows of one protocol, by its name in the index. */
export const rowsOf = (name: string): Row[] => rows.filter(({ protocol }) => protocol === name)

export const textOf = (file: string): string => readFileSync(file, 'utf8')

/** Number of recorded exchanges of each protocol, including those that are not conversations. */
export const INDEXED: Record<string, number> = {}
for (const { protocol } of rows) INDEXED[protocol] = (INDEXED[protocol] ?? 0) + 1

const all = rows.flatMap((row): Recording[] => {
  const protocol = PROTOCOLS[row.protocol]
  // One response is an HTML page with the status 200.
  if (protocol === undefined || row.files.response.endsWith('.html')) return []
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
        return JSON.parse(textOf(file)) as Record<string, unknown>
      },
      response: () => new Uint8Array(readFileSync(row.files.response)),
    },
  ]
})

/** All of them, read from their files when they are asked for. */
export const recordings = (): readonly Recording[] => all

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
