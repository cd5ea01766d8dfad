import type { InboundRequest, AppContext } from '../context.ts'
import { GatewayError, invalid } from '../error.ts'
import { replaceAt, type JsonPath } from '../json/text.ts'
import type { ProtocolName } from '../generation/request.ts'
import { fetchOutside, wrongOutsideUrl } from '../http/outside.ts'
import { sniff } from '../http/sniff.ts'
import { protocols } from '../protocols/index.ts'
import { isTextual, mediaKind } from '../protocols/media.ts'
import type { ProviderReference, MediaReference, MediaData, RawRequest } from '../protocols/protocol.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { globs } from '../providers/catalog-rows.ts'

/** Media that one request may have loaded for it. */
const MOST_LOADED = 100

/**
 * Base64 put into requests under way, all together. What becomes of it on its way takes about eight times as much
 * memory.
 */
const ROOM_BYTES = 256 * 2 ** 20

const FETCHES_AT_ONCE = 8
/** Of one account: what it names may be slow, and others must not wait for that. */
const FETCHES_OF_ONE = 4
const FETCH_MS = 10_000

/** Whose files may be named, for which models, and until when it matters. */
type Asker = { identity: Pick<InboundRequest['identity'], 'accountId' | 'allows'>; request: Pick<Request, 'signal'> }

/** What a request holds until it is over: its part of the room for media, and the endpoints that can take them. */
export type ResolvedMedia = { endpoints: readonly Endpoint[]; release(): void }

/** A medium that is put into its request: `bytes` before encoding. */
type Loaded = {
  reference: MediaReference
  mediaType: string
  filename: string
  bytes: number
  base64(): Promise<string>
}

/**
 * Puts the files and addresses that a request names into its body and text, as data, where its providers do not fetch
 * them themselves.
 * Undefined where it names none. Throws not_found for a file that is not this account's and for what only a provider
 * could know, invalid_request for a medium that none of the model's
 * providers takes in this way, overloaded where the requests under way hold too much; each names the parameter.
 */
export async function resolveMedia(
  app: AppContext,
  { identity, request }: Asker,
  name: ProtocolName,
  rawRequest: RawRequest,
): Promise<ResolvedMedia | undefined> {
  const named = protocols[name].serve.references?.(rawRequest.body, rawRequest.inserted) ?? []
  const model = rawRequest.model ?? rawRequest.body.model
  // What is wrong with its model is told by those who read the request and admit it: before that no file is opened for
  // it.
  if (named.length === 0 || typeof model !== 'string' || !identity.allows(model)) return undefined
  const held = new Held()
  try {
    const references = named.filter((reference): reference is MediaReference => reference.source.type !== 'provider')
    const { endpoints, toFetch } = divide(app, keepers(app.catalogue.endpoints(model, name), name, named), references)
    const toLoad = [...references.filter(({ source }) => source.type === 'file'), ...toFetch]
    if (toLoad.length > MOST_LOADED)
      throw invalid(
        toLoad[MOST_LOADED]!.param,
        `is one of ${toLoad.length} files and addresses that Sluice would have to load for this request: ${MOST_LOADED} are the most`,
      )
    const files = await filesOf(app, identity.accountId, references)
    const most = Math.max(...endpoints.map((endpoint) => requestBytes(app, endpoint)))
    const fetched = await fetchAll(app, identity.accountId, toFetch, request.signal, held, most)
    const loaded = [...files, ...fetched]
    const able = capable(app, endpoints, loaded, Buffer.byteLength(rawRequest.text))
    held.take(encodedBytes(files))
    if (loaded.length > 0) await inline(rawRequest, loaded)
    return { endpoints: able, release: () => held.release() }
  } catch (error) {
    held.release()
    throw error
  }
}

/** A part of the room that all requests under way share. */
class Held {
  static #free = ROOM_BYTES
  #bytes = 0
  #over = false

  /** A fetch that ends after its request was refused has nothing to hold. */
  take(bytes: number): void {
    if (this.#over) return
    if (bytes > Held.#free)
      throw new GatewayError(
        'overloaded',
        'The requests under way hold as many files as there is room for: try again.',
        { retryAfterSeconds: 1 },
      )
    Held.#free -= bytes
    this.#bytes += bytes
  }

  release(): void {
    this.#over = true
    Held.#free += this.#bytes
    this.#bytes = 0
  }
}

const encodedBytes = (media: readonly { bytes: number }[]): number =>
  media.reduce((sum, { bytes }) => sum + Math.ceil(bytes / 3) * 4, 0)

/** The files that a request names. One that is named twice is read once. */
async function filesOf(
  { files }: AppContext,
  accountId: string,
  references: readonly MediaReference[],
): Promise<Loaded[]> {
  const read = new Map<string, Promise<string>>()
  const loaded = references.map(async (reference): Promise<Loaded[]> => {
    const { source, param } = reference
    if (source.type !== 'file') return []
    const file = await files.find(accountId, source.id)
    if (file === undefined) throw unknownFile(param, source.id)
    const base64 = (): Promise<string> => {
      // Deleted since it was found: for its owner it was never there.
      const reading =
        read.get(file.id) ??
        files
          .bytes(file)
          .then(encode, (error: unknown) =>
            Promise.reject(
              error instanceof GatewayError && error.code === 'not_found' ? unknownFile(param, source.id) : error,
            ),
          )
      read.set(file.id, reading)
      return reading
    }
    return [{ reference, mediaType: bareType(file.mediaType), filename: file.filename, bytes: file.bytes, base64 }]
  })
  return (await Promise.all(loaded)).flat()
}

const unknownFile = (param: string, id: string): GatewayError =>
  new GatewayError(
    'not_found',
    `${param}: no file '${id.slice(0, 200)}' is stored; it may have expired or been deleted, and ids of a provider's own files are not known here. Upload it with POST /v1/files.`,
    { param },
  )

const encode = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

const bareType = (mediaType: string): string => mediaType.split(';')[0]!.trim().toLowerCase()

/** The endpoints at which accounts may name what the provider keeps. */
function keepers(
  all: readonly Endpoint[],
  name: ProtocolName,
  named: readonly (MediaReference | ProviderReference)[],
): readonly Endpoint[] {
  const kept = named.find((reference): reference is ProviderReference => reference.source.type === 'provider')
  return kept === undefined
    ? all
    : left(
        all,
        ({ provider, protocol }) => protocol === name && provider.sharedIds,
        () => notShared(kept, all),
      )
}

const notShared = ({ param, source: { what } }: ProviderReference, all: readonly Endpoint[]): GatewayError =>
  new GatewayError(
    'not_found',
    `${param}: names ${what} that only a provider keeps, and whose it is cannot be told there. Send what it holds with the request, or upload it with POST /v1/files where a file may stand; an operator whose accounts all share what ${namesOf(all)} keeps can set providers.<id>.sharedIds.`,
    { param },
  )

/**
 * The endpoints that can do with the addresses of a request, and those addresses that are fetched for them. All others
 * are passed on.
 */
function divide(
  { config }: AppContext,
  all: readonly Endpoint[],
  references: readonly MediaReference[],
): { endpoints: readonly Endpoint[]; toFetch: (MediaReference & { url: string })[] } {
  let endpoints = all
  const web: (MediaReference & { url: string })[] = []
  for (const reference of references) {
    const { source, param } = reference
    if (source.type !== 'url') continue
    if (isGoogles(source.url))
      endpoints = left(
        endpoints,
        ({ protocol }) => protocol === 'generateContent',
        () =>
          invalid(
            param,
            `is an address that only providers of Google's generateContent open, and ${namesOf(all)} is none: send the data inline`,
          ),
      )
    else if (!/^https?:$/.test(URL.parse(source.url)?.protocol ?? ''))
      throw invalid(param, 'must be an http(s) URL or the data itself')
    else web.push({ ...reference, url: source.url })
  }
  if (config.fetch.requestUrls)
    return {
      endpoints,
      toFetch: web.filter((reference) => !endpoints.every((endpoint) => fetches(endpoint, reference) === true)),
    }
  for (const reference of web) {
    const { url, param } = reference
    endpoints = left(
      endpoints,
      (endpoint) => fetches(endpoint, reference) !== false,
      () =>
        invalid(
          param,
          `${namesOf(all)} does not fetch URLs of this kind: send the data inline, or upload it with POST /v1/files and name its id. An operator can let Sluice fetch them with fetch.requestUrls.`,
        ),
    )
    // A server that nobody said anything of may stand in the operator's own network, and open whatever it is told to.
    const wrong = wrongOutsideUrl(url, config.fetch)
    if (wrong !== undefined)
      endpoints = left(
        endpoints,
        (endpoint) => fetches(endpoint, reference) === true,
        () => invalid(param, wrong),
      )
  }
  return { endpoints, toFetch: [] }
}

/** Cloud Storage and YouTube, which Google opens by itself and nobody else. */
const isGoogles = (url: string): boolean => /^gs:\/\/|^https?:\/\/((www\.|m\.)?youtube\.com|youtu\.be)\//i.test(url)

/**
 * Whether a provider opens such addresses itself; undefined where nobody said. A place that takes anything may hold
 * anything: what is no image there is a file to most.
 */
const fetches = ({ provider, protocol }: Endpoint, { kind }: MediaReference): boolean | undefined =>
  provider.media === undefined ? undefined : provider.media[protocol]?.fetches?.includes(kind ?? 'file') === true

const namesOf = (endpoints: readonly Endpoint[]): string =>
  [...new Set(endpoints.map(({ provider }) => provider.name))].join(', ')

function left(
  endpoints: readonly Endpoint[],
  takes: (endpoint: Endpoint) => boolean,
  refusal: () => GatewayError,
): readonly Endpoint[] {
  const able = endpoints.filter(takes)
  if (able.length === 0) throw refusal()
  return able
}

/**
 * Fetches what is not passed on, some at a time; the first that fails ends the others. `most`: bytes of base64 that any
 * endpoint would take.
 */
async function fetchAll(
  { config: { fetch } }: AppContext,
  accountId: string,
  references: readonly (MediaReference & { url: string })[],
  client: AbortSignal,
  held: Held,
  most: number,
): Promise<Loaded[]> {
  const over = new AbortController()
  const signal = AbortSignal.any([client, over.signal])
  let sum = 0
  const fetchOne = async (reference: MediaReference & { url: string }): Promise<Loaded> => {
    const { url, param } = reference
    try {
      const {
        bytes,
        mediaType,
        url: at,
      } = await fetchOutside(url, { private: fetch.private, maxBytes: fetch.bytes, totalMs: FETCH_MS, signal })
      const filename = decodeName(new URL(at).pathname.split('/').at(-1)!)
      const encoded = encodedBytes([{ bytes: bytes.length }])
      held.take(encoded)
      sum += encoded
      if (sum > most)
        throw invalid(
          param,
          `makes more of this request's media than its providers take in one, which is ${most} bytes in base64`,
        )
      return {
        reference,
        mediaType: bareType(sniff(bytes, mediaType, filename)),
        filename,
        bytes: bytes.length,
        base64: () => Promise.resolve(encode(bytes)),
      }
    } catch (error) {
      over.abort()
      throw error instanceof GatewayError && error.code === 'invalid_request' && error.param === undefined
        ? invalid(param, error.message)
        : error
    }
  }
  return Promise.all(references.map((reference) => inTurn(accountId, () => fetchOne(reference))))
}

const decodeName = (name: string): string => {
  try {
    return name === '' ? 'file' : decodeURIComponent(name)
  } catch {
    return name
  }
}

/** The accounts of the fetches that are under way, and those that wait for their turn. */
const fetching: string[] = []
const waiting: { accountId: string; start: () => void }[] = []

const fetchesOf = (accountId: string): number => fetching.filter((one) => one === accountId).length

const mayFetch = (accountId: string): boolean =>
  fetching.length < FETCHES_AT_ONCE && fetchesOf(accountId) < FETCHES_OF_ONE

/** Fetches when there is room for it; those go first whose account fetches least. */
async function inTurn<T>(accountId: string, work: () => Promise<T>): Promise<T> {
  if (mayFetch(accountId)) fetching.push(accountId)
  else await new Promise<void>((start) => waiting.push({ accountId, start }))
  try {
    return await work()
  } finally {
    fetching.splice(fetching.indexOf(accountId), 1)
    const able = waiting.filter((one) => mayFetch(one.accountId))
    if (able.length > 0) {
      const next = able.reduce((a, b) => (fetchesOf(b.accountId) < fetchesOf(a.accountId) ? b : a))
      waiting.splice(waiting.indexOf(next), 1)
      fetching.push(next.accountId)
      next.start()
    }
  }
}

/** The endpoints that take all these media inline. */
function capable(
  app: AppContext,
  all: readonly Endpoint[],
  loaded: readonly Loaded[],
  textBytes: number,
): readonly Endpoint[] {
  let endpoints = all
  for (const {
    reference: { kind, param },
    mediaType,
    bytes,
  } of loaded) {
    if (bytes === 0) throw invalid(param, 'is empty')
    const found = mediaKind(mediaType)
    if (kind !== undefined && found !== kind)
      throw invalid(
        param,
        `is ${mediaType}, and this place takes ${kind === 'file' ? 'documents' : `media of the type ${kind}/*`}`,
      )
    const takes = ({ provider, protocol }: Endpoint): boolean => {
      const types = provider.media?.[protocol]?.inline
      return types === undefined || globs(types).test(isTextual(mediaType) ? 'text/plain' : mediaType)
    }
    endpoints = left(endpoints, takes, () =>
      invalid(
        param,
        `is ${mediaType}, which ${namesOf(all)} does not take; it takes ${[...new Set(all.flatMap(({ provider, protocol }) => provider.media?.[protocol]?.inline ?? []))].join(', ')}`,
      ),
    )
  }
  if (loaded.length === 0) return endpoints
  const bytes = textBytes + encodedBytes(loaded)
  const largest = loaded.reduce((a, b) => (b.bytes > a.bytes ? b : a))
  return left(
    endpoints,
    (endpoint) => bytes <= requestBytes(app, endpoint),
    () => {
      const most = Math.max(...endpoints.map((endpoint) => requestBytes(app, endpoint)))
      return invalid(
        largest.reference.param,
        `makes this a request of ${bytes} bytes with its media in base64, and ${namesOf(endpoints)} takes at most ${most}: send less in one request`,
      )
    },
  )
}

/** Most bytes of one request with its media; where its provider says nothing, what clients may send at most. */
const requestBytes = ({ config }: AppContext, { provider }: Endpoint): number =>
  provider.media?.requestBytes ?? config.limits.bodyBytes

/** The body is made anew along the paths that change: what is kept of a response is what its client sent. */
async function inline(rawRequest: RawRequest, loaded: readonly Loaded[]): Promise<void> {
  const changes = await Promise.all(
    loaded.map(async ({ reference, mediaType, filename, base64 }) => {
      const medium = { mediaType, filename, data: await base64() }
      await pause()
      const value = reference.inline(medium)
      return { path: reference.path, value, text: textOf(reference, medium, value) }
    }),
  )
  rawRequest.text = replaceAt(
    rawRequest.text,
    changes.map(({ path, text }) => ({ path, value: text })),
  )
  rawRequest.body = changes.reduce<unknown>(
    (body, { path, value }) => put(body, path, value),
    rawRequest.body,
  ) as RawRequest['body']
}

/** Each step through a long medium takes tens of milliseconds: others are served in between. */
export const pause = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

const MARK = crypto.randomUUID().replaceAll('-', '')

/** JSON text of a value: the data in it, which may be long and needs no escapes, is put in unread. */
function textOf(reference: MediaReference, medium: MediaData, value: unknown): string {
  const around = JSON.stringify(reference.inline({ ...medium, data: MARK })).split(MARK)
  // Added up, long texts are copied when somebody reads them, and not once more for each piece.
  return around.length === 2 ? around[0]! + medium.data + around[1]! : JSON.stringify(value)
}

function put(value: unknown, path: JsonPath, leaf: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return leaf
  if (Array.isArray(value)) return value.with(step as number, put(value[step as number], rest, leaf))
  const object = value as Record<string, unknown>
  return { ...object, [step]: put(object[step], rest, leaf) }
}
