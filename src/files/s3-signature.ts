import { createHash, createHmac } from 'node:crypto'

/** A key of the bucket. `token`: of temporary credentials. */
export type S3Credentials = { id: string; secret: string; token?: string | undefined }

/** A request as it is sent. `query`: in the order of its names. `at`: Unix time in milliseconds. */
export type SignedRequest = {
  method: string
  url: URL
  query: readonly (readonly [name: string, value: string])[]
  content: Uint8Array
  region: string
  at: number
}

const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')
const mac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()

/** As AWS writes it: everything but letters, digits and `-._~` is escaped. */
export const escaped = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

/**
 * The headers of AWS Signature Version 4 for S3. The content is signed, too, so that a server refuses one that was
 * changed on its way.
 */
export function signatureOf(
  { method, url, query, content, region, at }: SignedRequest,
  { id, secret, token }: S3Credentials,
): Record<string, string> {
  const time = new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')
  const day = time.slice(0, 8)
  const headers: Record<string, string> = {
    'x-amz-content-sha256': sha256(content),
    'x-amz-date': time,
    ...(token === undefined ? {} : { 'x-amz-security-token': token }),
  }
  const signed = Object.entries({ host: url.host, ...headers })
  const names = signed.map(([name]) => name).join(';')
  const canonical = [
    method,
    url.pathname,
    query.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join('&'),
    ...signed.map(([name, value]) => `${name}:${value}`),
    '',
    names,
    headers['x-amz-content-sha256'],
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const key = mac(mac(mac(mac(`AWS4${secret}`, day), region), 's3'), 'aws4_request')
  const signature = mac(key, ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n')).toString('hex')
  headers['authorization'] =
    `AWS4-HMAC-SHA256 Credential=${id}/${scope}, SignedHeaders=${names}, Signature=${signature}`
  return headers
}
