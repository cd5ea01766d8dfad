/** A `fetch` that records each request, also those that the SDK retries. */
export function countingFetch(): { fetch: typeof fetch; requests: { method: string; path: string; body: any }[] } {
  const requests: { method: string; path: string; body: any }[] = []
  const counted = async (input: Request | URL | string, init?: RequestInit): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : String(input))
    const body = typeof init?.body === 'string' ? (JSON.parse(init.body) as unknown) : undefined
    requests.push({ method: init?.method ?? 'GET', path: url.pathname + url.search, body })
    return fetch(input, init)
  }
  return { fetch: counted as typeof fetch, requests }
}
