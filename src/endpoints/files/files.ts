import { GatewayError, invalid } from '../../error.ts'
import { contentHeaders } from '../../http/content.ts'
import { boundaryOf, MULTIPART_OVERHEAD_BYTES, MultipartReader } from '../../http/multipart.ts'
import { declaredLength, originOf, readChunks } from '../../http/serve.ts'
import type { AuthenticatedRequest, AppContext } from '../../context.ts'
import type { StoredFile } from '../../store/store.ts'
import { PURPOSES, UploadForm } from './form.ts'

/**
 * The files API. Responses have the fields of OpenAI's and Replicate's APIs together, or those of Anthropic's if the
 * client sends `anthropic-version`.
 */

/** `POST /v1/files`: streams the upload to disk. */
export async function createFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const { fileBytes } = app.config.limits
  const boundary = boundaryOf(call.request.headers.get('content-type'))
  const declared = declaredLength(call.request, fileBytes + MULTIPART_OVERHEAD_BYTES)
  // A stopping server waits for uploads in progress.
  const inFlight = app.inFlight.enter(call.request.signal)
  try {
    return Response.json(writeFile(app, call, await receive(app, call, boundary, declared ?? 0)))
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
    for await (const chunk of readChunks(request, fileBytes + MULTIPART_OVERHEAD_BYTES)) {
      for (const event of reader.read(chunk)) await form.add(event)
    }
    reader.end()
    return await upload.keep(form.details())
  } finally {
    await upload.discard()
  }
}

/** `GET /v1/files`. */
export async function listFiles(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const { after, limit, order, purpose } = isAnthropic(call) ? readAnthropicQuery(call.query) : readQuery(call.query)
  const page = await app.files.list(call.identity.accountId, { after: after?.id, limit: limit + 1, order, purpose })
  // Starting over at the first page would make the client loop forever.
  if (page === undefined) throw invalid(after!.param, 'must be the id of one of these files')
  const data = page.slice(0, limit)
  const bounds = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: page.length > limit }
  const files = data.map((file) => writeFile(app, call, file))
  if (isAnthropic(call))
    return Response.json({ data: files, ...bounds, next_page: bounds.has_more ? bounds.last_id : null })
  return Response.json({ object: 'list', data: files, ...bounds })
}

type FileListQuery = {
  after: { id: string; param: string } | undefined
  limit: number
  order: 'asc' | 'desc'
  purpose?: string | undefined
}

const MAX_PAGE = 10_000

function readQuery(query: URLSearchParams): FileListQuery {
  const order = query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "must be 'asc' or 'desc'")
  const purpose = query.get('purpose') ?? undefined
  if (purpose !== undefined && !PURPOSES.includes(purpose))
    throw invalid('purpose', `must be one of ${PURPOSES.join(', ')}`)
  return { after: readAfter(query, 'after'), limit: readLimit(query, MAX_PAGE, MAX_PAGE), order, purpose }
}

const ANTHROPIC_DEFAULT_PAGE = 20
const ANTHROPIC_MAX_PAGE = 1_000

function readAnthropicQuery(query: URLSearchParams): FileListQuery {
  for (const name of query.keys()) {
    if (/^(?:before_id|scope_id|ids(?:\[.*\])?)$/.test(name))
      throw new GatewayError('unsupported_parameter', `${name} is not supported; use limit, page or after_id`, {
        param: name,
      })
  }
  return {
    after: readAfter(query, query.has('page') ? 'page' : 'after_id'),
    limit: readLimit(query, ANTHROPIC_DEFAULT_PAGE, ANTHROPIC_MAX_PAGE),
    order: 'desc',
  }
}

function readAfter(query: URLSearchParams, param: string): FileListQuery['after'] {
  const id = query.get(param)
  return id === null ? undefined : { id, param }
}

function readLimit(query: URLSearchParams, byDefault: number, max: number): number {
  const text = query.get('limit') ?? String(byDefault)
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > max) throw invalid('limit', `must be a whole number from 1 to ${max}`)
  return limit
}

/** `GET /v1/files/{id}`. */
export async function getFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  return Response.json(writeFile(app, call, await findFile(app, call)))
}

/** `GET /v1/files/{id}/content`: streams the file, or a range of it. */
export async function getFileContent(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const file = await findFile(app, call)
  return app.files.respond(file, {
    range: call.request.headers.get('range'),
    headers: { ...contentHeaders(file.mediaType, file.filename), 'cache-control': 'private, no-store' },
  })
}

/** `DELETE /v1/files/{id}`. */
export async function deleteFile(app: AppContext, call: AuthenticatedRequest): Promise<Response> {
  const file = await app.files.delete(call.identity.accountId, call.params[0]!)
  if (file === undefined) throw fileNotFound()
  if (isAnthropic(call)) return Response.json({ id: file.id, type: 'file_deleted' })
  // Replicate's client accepts no other response to a deletion.
  if (file.metadata !== null) return new Response(null, { status: 204 })
  return Response.json({ id: file.id, object: 'file', deleted: true })
}

async function findFile(app: AppContext, call: AuthenticatedRequest): Promise<StoredFile> {
  const file = await app.files.find(call.identity.accountId, call.params[0]!)
  if (file === undefined) throw fileNotFound()
  return file
}

/** One error for ids that are unknown, deleted, expired or of another account, so that ids cannot be probed. */
const fileNotFound = (): GatewayError =>
  new GatewayError('not_found', 'No such file. It may have been deleted or have expired.', {
    param: 'file_id',
  })

const isAnthropic = ({ request }: AuthenticatedRequest): boolean => request.headers.has('anthropic-version')

function writeFile(
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
    // Replicate's fields.
    name: filename,
    content_type: mediaType,
    size: bytes,
    checksums: { sha256 },
    etag: sha256,
    metadata: JSON.parse(metadata ?? '{}') as object,
    urls: { get: url },
  }
}
