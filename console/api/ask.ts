/** One request to the management API. Errors of the server, and a server that is not there, become an `ApiError`. */

const BASE = '/v1/management'

export class ApiError extends Error {
  override readonly name = 'ApiError'

  constructor(
    message: string,
    /** 0: no answer at all. */
    readonly status: number,
    readonly code: string,
    readonly requestId: string | null = null,
    /** The member of the body that was refused, such as `keys.name`. */
    readonly param: string | null = null,
    readonly etag: string | null = null,
  ) {
    super(message)
  }
}

/** Resolves at the next sign-in; undefined while the page does not ask for one. */
let signIn: { promise: Promise<void>; resolve(): void } | undefined
const listeners = new Set<(needed: boolean) => void>()

/** Calls `listener` when the session has ended, and when there is one again. */
export function onSignInNeeded(listener: (needed: boolean) => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** Sends what waited for a session again. */
export function signedInAgain(): void {
  const waiting = signIn
  signIn = undefined
  for (const listener of listeners) listener(false)
  waiting?.resolve()
}

function sessionAgain(): Promise<void> {
  if (signIn === undefined) {
    signIn = Promise.withResolvers<void>()
    for (const listener of listeners) listener(true)
  }
  return signIn.promise
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>
export type AskOptions = {
  query?: Query
  body?: unknown
  signal?: AbortSignal
  /** The version that a change is meant for. */
  ifMatch?: string
  /** A request before there is a session: a 401 is an answer of its own. */
  isSignIn?: boolean
}

export function urlOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') continue
    for (const one of Array.isArray(value) ? value : [value]) params.append(name, String(one))
  }
  const text = params.toString()
  return `${BASE}${path}${text === '' ? '' : `?${text}`}`
}

export type Answer<T> = { data: T; etag: string | null }

/**
 * A session that has ended neither fails nor repeats a request: the question to sign in appears over the page,
 * and the request goes on afterwards.
 */
export async function askWithTag<T>(method: Method, path: string, options: AskOptions = {}): Promise<Answer<T>> {
  for (;;) {
    const response = await send(method, path, options)
    if (response.status !== 401 || options.isSignIn === true) return read<T>(response)
    await sessionAgain()
  }
}

export const ask = async <T>(method: Method, path: string, options: AskOptions = {}): Promise<T> =>
  (await askWithTag<T>(method, path, options)).data

const PAGE_ROWS = 200
/** More would be too much for a page to draw, and for a server to be asked for at once. */
const MOST_ROWS = 10_000

/** All pages of a list as one, for choices and for filters of the page. `next`: set where there are too many. */
export async function askAll<T>(path: string, { query = {}, signal }: Pick<AskOptions, 'query' | 'signal'>) {
  const all: { data: T[]; next: string | null } = { data: [], next: null }
  do {
    const page: typeof all = await ask('GET', path, {
      query: { ...query, limit: PAGE_ROWS, cursor: all.next },
      ...(signal === undefined ? {} : { signal }),
    })
    all.data.push(...page.data)
    all.next = page.next
  } while (all.next !== null && all.data.length < MOST_ROWS)
  return all
}

async function send(method: Method, path: string, { query, body, signal, ifMatch }: AskOptions): Promise<Response> {
  const headers: Record<string, string> = { 'x-sluice-console': '1' }
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (ifMatch !== undefined) headers['if-match'] = ifMatch
  try {
    return await fetch(urlOf(path, query), {
      method,
      headers,
      credentials: 'same-origin',
      cache: 'no-store',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError('The server does not answer.', 0, 'not_connected')
  }
}

async function read<T>(response: Response): Promise<Answer<T>> {
  const text = await response.text()
  const etag = response.headers.get('etag')
  const json = parsed(text)
  if (response.ok) return { data: (json ?? null) as T, etag }
  const { error } = (json ?? {}) as { error?: { message?: string; code?: string; param?: string | null } }
  throw new ApiError(
    error?.message ?? `The server answered ${response.status}.`,
    response.status,
    error?.code ?? 'unknown',
    response.headers.get('x-request-id'),
    error?.param ?? null,
    etag,
  )
}

const parsed = (text: string): unknown => {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
