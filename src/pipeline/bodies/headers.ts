/** The headers that are stored with bodies. None of them is a credential; all others are left out. */
const NAMES = new Set([
  'accept',
  'anthropic-beta',
  'anthropic-version',
  'cf-ray',
  'content-encoding',
  'content-type',
  'openai-beta',
  'openai-processing-ms',
  'openai-version',
  'request-id',
  'retry-after',
  'server',
  'user-agent',
  'x-generation-id',
  'x-goog-api-client',
  'x-request-id',
  'x-should-retry',
])

/** Names that begin like this: counts, times and our own. */
const BEGINNINGS = ['x-sluice-', 'x-ratelimit-', 'anthropic-ratelimit-', 'x-stainless-'] as const

export function shownHeaders(headers: Iterable<[string, string]>): [string, string][] {
  const shown: [string, string][] = []
  for (const [name, value] of headers) {
    const lower = name.toLowerCase()
    if (NAMES.has(lower) || BEGINNINGS.some((beginning) => lower.startsWith(beginning))) shown.push([lower, value])
  }
  return shown
}

/** Without query and user, which may be credentials. */
export function shownUrl(text: string): string {
  const { origin, pathname } = new URL(text)
  return origin + pathname
}
