import { stringsIn } from '../../json/strings.ts'
import { answer, cursorAfter, limitOf, positionOf, time, type Page } from './answer.ts'
import { logChange } from './change-log.ts'
import { jobFor, publicId } from './jobs.ts'
import type { ManagementContext, ManagementRequest } from './route.ts'

/**
 * A file in the output of a prediction. `state`: `stored` here, `expired` here, `inline` in the output as a data URL,
 * or `elsewhere`, at its provider, where its type and size are not known.
 */
export type JobFileAnswer = {
  url: string
  state: 'stored' | 'expired' | 'inline' | 'elsewhere'
  media_type: string | null
  bytes: number | null
  expires_at: string | null
}

/** `GET /v1/management/jobs/{id}/files`: in the order of the output. Each view has a line in the change log. */
export async function listJobFiles(app: ManagementContext, inbound: ManagementRequest): Promise<Response> {
  const limit = limitOf(inbound)
  const from = positionOf<number>(inbound) ?? 0
  const row = await jobFor(app, inbound, 'bodies.read')
  const { kind, accountId, id } = row
  const prediction = kind === 'prediction' ? await app.predictor.find(accountId, id) : undefined
  const urls = [...new Set(stringsIn(prediction?.output ?? null))].filter((text) => URL_TEXT.test(text))
  const own = `${prediction?.origin}/v1/outputs/`
  const data = await Promise.all(urls.slice(from, from + limit).map((url) => fileOf(app, url, own)))
  await logChange(app, inbound, { action: 'bodies.read', target: publicId(row), accountId })
  const end = from + limit
  const page: Page<JobFileAnswer> = {
    data,
    next: end < urls.length ? cursorAfter(inbound, end) : null,
    scanned_to: null,
  }
  return answer(page)
}

const URL_TEXT = /^(?:https?:\/\/\S+|data:[^,]*,.*)$/is
const DATA_URL = /^data:([^;,]*)[^,]*?(;base64)?,/i

/** `own`: the beginning of addresses of outputs that are stored here. */
async function fileOf({ files }: ManagementContext, url: string, own: string): Promise<JobFileAnswer> {
  const [head, mediaType = '', base64] = DATA_URL.exec(url) ?? []
  if (head !== undefined) {
    const encoded = url.slice(head.length)
    const bytes = base64 === undefined ? decodedLength(encoded) : Buffer.byteLength(encoded, 'base64')
    return { url, state: 'inline', media_type: mediaType === '' ? 'text/plain' : mediaType, bytes, expires_at: null }
  }
  if (!url.startsWith(own)) return { url, state: 'elsewhere', media_type: null, bytes: null, expires_at: null }
  const output = await files.findOutput(url.slice(own.length))
  if (output === undefined) return { url, state: 'expired', media_type: null, bytes: null, expires_at: null }
  const { mediaType: type, bytes, expiresAt } = output
  return { url, state: 'stored', media_type: type, bytes, expires_at: time(expiresAt) }
}

/** Bytes of a text in which some are written as `%00`. */
const decodedLength = (text: string): number => Buffer.byteLength(text.replace(/%[0-9a-f]{2}/gi, '.'))
