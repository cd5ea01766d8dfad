import { GatewayError, invalid } from '../../error.ts'
import { contentHeaders } from '../../http/content.ts'
import { boundaryOf, MULTIPART_OVERHEAD_BYTES, MultipartReader } from '../../http/multipart.ts'
import { declaredLength, originOf, readChunks } from '../../http/serve.ts'
import type { AuthenticatedRequest, AppContext } from '../../context.ts'
import type { StoredFile } from '../../store/store.ts'
import { PURPOSES, UploadForm } from './form.ts'

/**
 * Files of an account, in the words of OpenAI's clients, with what Replicate's need beside them, or in those of
 * Anthropic's.
 */

/** `POST /v1/files`: from the network to the disk, piece by piece. */
export async function createFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const { fileBytes } = app.config.limits
  const boundary = boundaryOf(call.request.headers.get('content-type'))
  const declared = declaredLength(call.request, fileBytes + MULTIPART_OVERHEAD_BYTES)
  // A server that stops lets it come to its end.
  const inFlight = app.inFlight.enter(call.request.signal)
  try {
    return Response.json(write(app, call, await receive(app, call, boundary, declared ?? 0)))
  } finally {
    inFlight.leave()
  }
}

async function receive(
  app: AppContext,
  { identity, request }: AuthenticatedRequest,
  boundary: string,
  declaredBytes: number,
): Promise<StoredFile> {
  const { fileBytes } = app.config.limits
  const upload = await app.files.upload(identity.accountId, Math.max(0, declaredBytes - MULTIPART_OVERHEAD_BYTES))
  try {
    const reader = new MultipartReader(boundary)
    const form = new UploadForm(upload, fileBytes)
    for await (const piece of readChunks(request, fileBytes + MULTIPART_OVERHEAD_BYTES)) {
      for (const event of reader.read(piece)) await form.take(event)
    }
    reader.end()
    return await upload.keep(form.facts())
  } finally {
    await upload.discard()
  }
}

/** `GET /v1/files`. */
export async function listFiles(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const { after, limit, order, purpose } = isAnthropic(call) ? readAnthropicQuery(call.query) : readQuery(call.query)
  const page = await app.files.list(call.identity.accountId, { after: after?.id, limit: limit + 1, order, purpose })
  // Begun anew, a client would turn these pages for ever.
  if (page === undefined) throw invalid(after!.param, 'must be the id of one of these files')
  const data = page.slice(0, limit)
  const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: page.length > limit }
  const written = data.map((file) => write(app, call, file))
  if (isAnthropic(call))
    return Response.json({ data: written, ...ends, next_page: ends.has_more ? ends.last_id : null })
  return Response.json({ object: 'list', data: written, ...ends })
}

type Asked = {
  after: { id: string; param: string } | undefined
  limit: number
  order: 'asc' | 'desc'
  purpose?: string | undefined
}

const PAGE_MAX = 10_000

function readQuery(query: URLSearchParams): Asked {
  const order = query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "must be 'asc' or 'desc'")
  const purpose = query.get('purpose') ?? undefined
  if (purpose !== undefined && !PURPOSES.includes(purpose))
    throw invalid('purpose', `must be one of ${PURPOSES.join(', ')}`)
  return { after: readAfter(query, 'after'), limit: readLimit(query, PAGE_MAX, PAGE_MAX), order, purpose }
}

const ANTHROPIC_PAGE = 20
const ANTHROPIC_PAGE_MAX = 1_000

function readAnthropicQuery(query: URLSearchParams): Asked {
  for (const name of query.keys()) {
    if (/^(?:before_id|scope_id|ids(?:\[.*\])?)$/.test(name))
      throw new GatewayError(
        'unsupported_parameter',
        `${name}: files are not listed by it here; there are limit, page and after_id`,
        { param: name },
      )
  }
  return {
    after: readAfter(query, query.has('page') ? 'page' : 'after_id'),
    limit: readLimit(query, ANTHROPIC_PAGE, ANTHROPIC_PAGE_MAX),
    order: 'desc',
  }
}

function readAfter(query: URLSearchParams, param: string): Asked['after'] {
  const id = query.get(param)
  return id === null ? undefined : { id, param }
}

function readLimit(query: URLSearchParams, usual: number, most: number): number {
  const text = query.get('limit') ?? String(usual)
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > most) throw invalid('limit', `must be a whole number from 1 to ${most}`)
  return limit
}

/** `GET /v1/files/{id}`. */
export async function getFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  return Response.json(write(app, call, await found(app, call)))
}

/** `GET /v1/files/{id}/content`: from the disk to the network. */
export async function getFileContent(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const file = await found(app, call)
  return new Response(app.files.content(file), {
    headers: { ...contentHeaders(file.mediaType, file.filename), 'cache-control': 'private, no-store' },
  })
}

/** `DELETE /v1/files/{id}`. */
export async function deleteFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const file = await app.files.delete(call.identity.accountId, call.params[0]!)
  if (file === undefined) throw unknown()
  if (isAnthropic(call)) return Response.json({ id: file.id, type: 'file_deleted' })
  // Replicate's client takes nothing else for deleted.
  if (file.metadata !== null) return new Response(null, { status: 204 })
  return Response.json({ id: file.id, object: 'file', deleted: true })
}

async function found(app: AppContext, call: AuthenticatedRequest): Promise<StoredFile> {
  const file = await app.files.find(call.identity.accountId, call.params[0]!)
  if (file === undefined) throw unknown()
  return file
}

/** What is unknown, deleted, expired or another account's is told in the same words. */
const unknown = (): GatewayError =>
  new GatewayError('not_found', 'No file of this account has this id; it may have been deleted, or have expired.', {
    param: 'file_id',
  })

const isAnthropic = ({ request }: AuthenticatedRequest): boolean => request.headers.has('anthropic-version')

function write(
  { config }: AppContext,
  call: AuthenticatedRequest,
  { id, filename, purpose, bytes, mediaType, sha256, metadata, createdAt, expiresAt }: StoredFile,
): object {
  if (isAnthropic(call)) {
    const at = (instant: number): string => new Date(instant).toISOString()
    return {
      type: 'file',
      id,
      filename,
      mime_type: mediaType,
      size_bytes: bytes,
      created_at: at(createdAt),
      expires_at: expiresAt === null ? null : at(expiresAt),
      downloadable: true,
    }
  }
  const url = `${originOf(call.request, config.listen.publicUrl)}/v1/files/${id}`
  return {
    id,
    object: 'file',
    bytes,
    created_at: Math.floor(createdAt / 1000),
    expires_at: expiresAt === null ? null : Math.floor(expiresAt / 1000),
    filename,
    purpose,
    status: 'processed',
    status_details: null,
    // What follows is for Replicate's clients.
    name: filename,
    content_type: mediaType,
    size: bytes,
    checksums: { sha256 },
    metadata: JSON.parse(metadata ?? '{}') as object,
    urls: { get: url },
  }
}
