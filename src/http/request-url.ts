import { GatewayError } from '../error.ts'

/** Any other Host would move the boundary between host and path in the URL that the runtime builds from it. */
const HOST = /^[A-Za-z0-9._~-]+(?::\d{1,5})?$|^\[[0-9A-Fa-f:.]+\](?::\d{1,5})?$/

export function checkHost(host: string | null): void {
  if (host === null || !HOST.test(host))
    throw new GatewayError('invalid_request', 'Invalid Host header: expected host or host:port.')
}

const NO_QUERY = new URLSearchParams()

/** Path and query of a request's URL, the path as the client wrote it. */
export function pathAndQuery(url: string): { path: string; query: URLSearchParams } {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const mark = url.indexOf('?', start)
  return mark < 0
    ? { path: url.slice(start), query: NO_QUERY }
    : { path: url.slice(start, mark), query: new URLSearchParams(url.slice(mark)) }
}
