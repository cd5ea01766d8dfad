import { createHmac, createHash } from 'node:crypto'

export const S3_KEY = { id: 'AKIATESTKEY0001', secret: 'secret-of-the-bucket-0001', region: 'eu-central-1' }

export type S3Server = {
  /** The variables with which a process reaches it. */
  env: Record<string, string>
  objects: Map<string, { content: Uint8Array; at: number }>
  requests: { method: string; bytes: number }[]
  /** Session tokens of requests. */
  tokens: Set<string>
  /** Answers requests with this, but those for which it has nothing. */
  failure: ((method: string, key: string) => Response | Promise<Response> | undefined) | undefined
  stop(): Promise<void>
}

/** A server with one bucket, `files`, that checks signatures and keeps objects in memory. */
export function startS3(): S3Server {
  const state: Pick<S3Server, 'objects' | 'requests' | 'tokens' | 'failure'> = {
    objects: new Map(),
    requests: [],
    tokens: new Set(),
    failure: undefined,
  }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.bytes()
      state.requests.push({ method: request.method, bytes: body.length })
      const failed = state.failure?.(request.method, keyOf(request))
      if (failed !== undefined) return failed
      if (!isSigned(request)) return fault(403, 'SignatureDoesNotMatch')
      const token = request.headers.get('x-amz-security-token')
      if (token !== null) state.tokens.add(token)
      const hash = createHash('sha256').update(body).digest('hex')
      if (request.headers.get('x-amz-content-sha256') !== hash) return fault(400, 'XAmzContentSHA256Mismatch')
      return answer(request, body, state)
    },
  })
  return Object.assign(state, {
    env: {
      AWS_ENDPOINT_URL: server.url.origin,
      AWS_ACCESS_KEY_ID: S3_KEY.id,
      AWS_SECRET_ACCESS_KEY: S3_KEY.secret,
      AWS_REGION: S3_KEY.region,
    },
    stop: () => server.stop(true),
  })
}

export const fault = (status: number, code: string): Response =>
  new Response(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`, { status })

const keyOf = ({ url }: { url: string }): string =>
  decodeURIComponent(new URL(url).pathname).split('/').slice(2).join('/')

function answer({ method, url }: Request, body: Uint8Array, { objects }: Pick<S3Server, 'objects'>): Response {
  const { pathname, searchParams } = new URL(url)
  if (pathname.split('/')[1] !== 'files') return fault(404, 'NoSuchBucket')
  const key = keyOf({ url })
  if (method === 'GET' && key === '') return listing(objects, searchParams)
  if (method === 'PUT') objects.set(key, { content: body, at: Date.now() })
  else if (method === 'DELETE') objects.delete(key)
  else return objects.has(key) ? new Response(objects.get(key)!.content) : fault(404, 'NoSuchKey')
  return new Response(null, { status: method === 'PUT' ? 200 : 204 })
}

/** Keys of a page: few, so that lists have several. */
const PAGE = 3

function listing(objects: S3Server['objects'], asked: URLSearchParams): Response {
  const [prefix, after] = [asked.get('prefix') ?? '', asked.get('start-after') ?? '']
  const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort()
  const contents = keys.slice(0, PAGE).map((key) => {
    const at = new Date(objects.get(key)!.at).toISOString()
    return `<Contents><Key>${key}</Key><LastModified>${at}</LastModified><Size>1</Size></Contents>`
  })
  return new Response(
    `<?xml version="1.0"?><ListBucketResult><IsTruncated>${keys.length > PAGE}</IsTruncated>${contents.join('')}` +
      '</ListBucketResult>',
    { headers: { 'content-type': 'application/xml' } },
  )
}

/** Reports whether a request has the signature of the key (AWS Signature Version 4, of the header). */
function isSigned({ method, url, headers }: Request): boolean {
  const found =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d+)\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/
  const [, id, day, region, names = '', signature] = found.exec(headers.get('authorization') ?? '') ?? []
  if (id !== S3_KEY.id || region !== S3_KEY.region) return false
  const { pathname, searchParams } = new URL(url)
  const query = [...searchParams].map(([name, value]) => `${name}=${encodeURIComponent(value)}`).sort()
  const canonical = [
    method,
    pathname,
    query.join('&'),
    ...names.split(';').map((name) => `${name}:${headers.get(name)}`),
    '',
    names,
    headers.get('x-amz-content-sha256'),
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const hash = createHash('sha256').update(canonical).digest('hex')
  const text = ['AWS4-HMAC-SHA256', headers.get('x-amz-date'), scope, hash].join('\n')
  const mac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()
  const signing = mac(mac(mac(mac(`AWS4${S3_KEY.secret}`, day!), region), 's3'), 'aws4_request')
  return mac(signing, text).toString('hex') === signature
}
