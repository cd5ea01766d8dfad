import { protocols } from '../protocols/index.ts'
import type { Config } from '../config/load.ts'
import { GatewayError, invalid } from '../error.ts'
import type { ProtocolName } from '../generation/request.ts'
import { publicUrlProblem } from '../http/ssrf-guard.ts'
import { isTextual, mediaKind } from '../protocols/media.ts'
import type { MediaReference, ProviderReference } from '../protocols/protocol.ts'
import { globs } from '../providers/catalog-rows.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import { heldBy } from '../providers/names.ts'
import { encodedBytes, type LoadedMedia } from './media-memory.ts'

/** The part of the configuration that decides about media. */
export type MediaConfig = { fetch: Config['fetch']; limits: Pick<Config['limits'], 'bodyBytes'> }

/** The endpoints of a model that can take the media to which a request refers. */

const namesOf = (endpoints: readonly Endpoint[]): string =>
  [...new Set(endpoints.map(({ provider }) => provider.name))].join(', ')

/** The endpoints that pass; throws the refusal where none does. */
function filtered(
  endpoints: readonly Endpoint[],
  passes: (endpoint: Endpoint) => boolean,
  refusal: () => GatewayError,
): readonly Endpoint[] {
  const passing = endpoints.filter(passes)
  if (passing.length === 0) throw refusal()
  return passing
}

type Reference = MediaReference | ProviderReference

/** The ids in references that may be those of a provider. */
export const idsIn = (named: readonly Reference[]): string[] =>
  named.flatMap(({ source }) =>
    source.type === 'provider'
      ? source.ids.filter((id) => typeof id === 'string')
      : source.type === 'file'
        ? [source.id]
        : [],
  )

/** Reports whether a reference is to an object at a provider. `issued`: ids that providers issued to the account. */
export const isStored = ({ source }: Reference, issued: ReadonlyMap<string, string>): boolean =>
  source.type === 'provider' || (source.type === 'file' && issued.has(source.id))

/**
 * The endpoints at which an account may refer to objects stored at the provider: those that issued the ids to it, and
 * those whose objects all accounts share. Endpoints of another protocol only get requests without them.
 */
export const storingEndpoints = (
  all: readonly Endpoint[],
  protocol: ProtocolName,
  stored: readonly Reference[],
  issued: ReadonlyMap<string, string>,
): readonly Endpoint[] =>
  stored.reduce(
    (endpoints, reference) =>
      filtered(
        endpoints,
        (endpoint) =>
          endpoint.protocol === protocol
            ? endpoint.provider.sharedIds || isIssuedBy(endpoint, reference, issued)
            : 'optional' in reference && reference.optional === true,
        () => notIssued(reference, all),
      ),
    all,
  )

function isIssuedBy(endpoint: Endpoint, { source }: Reference, issued: ReadonlyMap<string, string>): boolean {
  const isHeld = (id: unknown): boolean => {
    const holder = typeof id === 'string' ? issued.get(id) : undefined
    return holder !== undefined && heldBy([endpoint], holder) !== undefined
  }
  if (source.type === 'file') return isHeld(source.id)
  return source.type === 'provider' && source.ids.length > 0 && source.ids.every(isHeld)
}

const notIssued = ({ param, source }: Reference, all: readonly Endpoint[]): GatewayError =>
  new GatewayError(
    'not_found',
    `${param}: refers to ${source.type === 'provider' ? source.what : 'a file'} stored at the provider ` +
      'under a shared key, and no response of that provider to this account had its id. ' +
      'Send its content with the request, or upload it with POST /v1/files where a file is accepted. ' +
      `If all accounts may share what ${namesOf(all)} stores, an operator can set providers.<id>.sharedIds.`,
    { param },
  )

type UrlReference = MediaReference & { url: string }

/** The endpoints that can handle the URLs of a request, and the URLs to fetch for them. The others are passed on. */
export function routeUrls(
  { fetch }: MediaConfig,
  all: readonly Endpoint[],
  references: readonly MediaReference[],
): { endpoints: readonly Endpoint[]; toFetch: UrlReference[] } {
  const { endpoints, web } = splitUrls(all, references)
  return fetch.requestUrls
    ? {
        endpoints,
        toFetch: web.filter((reference) => !endpoints.every((endpoint) => fetches(endpoint, reference) === true)),
      }
    : {
        endpoints: web.reduce((left, reference) => fetchingEndpoints(fetch, left, reference, all), endpoints),
        toFetch: [],
      }
}

/** Web URLs, and the endpoints left by URLs that only Google opens. */
function splitUrls(
  all: readonly Endpoint[],
  references: readonly MediaReference[],
): { endpoints: readonly Endpoint[]; web: UrlReference[] } {
  let endpoints = all
  const web: UrlReference[] = []
  for (const reference of references) {
    const { source, param } = reference
    if (source.type !== 'url') continue
    const opening = openingOnly(source.url)
    if (opening !== undefined) endpoints = openingEndpoints(endpoints, opening, source.url, param, all)
    else if (!/^https?:$/.test(URL.parse(source.url)?.protocol ?? ''))
      throw invalid(param, 'must be an http(s) URL or the data itself')
    else web.push({ ...reference, url: source.url })
  }
  return { endpoints, web }
}

type Opening = { only: ProtocolName; rights: 'anyone' | 'operator' }

/** The one protocol whose providers open a URL; undefined for URLs of the web. */
function openingOnly(url: string): Opening | undefined {
  for (const { name, call } of Object.values(protocols)) {
    const rights = call.opensOnly?.(url)
    if (rights !== undefined) return { only: name, rights }
  }
  return undefined
}

/** The endpoints that open such a URL, and may for any account. */
function openingEndpoints(
  endpoints: readonly Endpoint[],
  { only, rights }: Opening,
  url: string,
  param: string,
  all: readonly Endpoint[],
): readonly Endpoint[] {
  const opening = filtered(
    endpoints,
    ({ protocol }) => protocol === only,
    () =>
      invalid(
        param,
        `is a URL that only providers of ${only} open, and ${namesOf(all)} is not one: send the data inline`,
      ),
  )
  if (rights === 'anyone') return opening
  return filtered(
    opening,
    ({ provider }) => provider.inProcess !== undefined || provider.buckets.some((bucket) => isWithin(bucket, url)),
    () =>
      new GatewayError(
        'permission_denied',
        `${param}: ${namesOf(opening)} would read this object with the rights of the operator, who has not listed ` +
          'its bucket in providers.<id>.buckets: send the data inline, or upload it with POST /v1/files.',
        { param },
      ),
  )
}

/** True for a bucket or path itself, and for what is below it. A scheme has no case, the rest is literal. */
function isWithin(bucket: string, url: string): boolean {
  const path = url.replace(/^[a-z]+/i, (scheme) => scheme.toLowerCase())
  if (/\/\.{1,2}(?:\/|$)/.test(path)) return false
  const root = bucket.replace(/\/$/, '')
  return path === root || path.startsWith(`${root}/`)
}

/** The endpoints that may be given a URL to open, where Sluice fetches none itself. */
function fetchingEndpoints(
  fetch: Config['fetch'],
  endpoints: readonly Endpoint[],
  reference: UrlReference,
  all: readonly Endpoint[],
): readonly Endpoint[] {
  const { url, param } = reference
  const fetching = filtered(
    endpoints,
    (endpoint) => fetches(endpoint, reference) !== false,
    () =>
      invalid(
        param,
        `${namesOf(all)} does not fetch URLs of this kind: send the data inline, or upload it with POST /v1/files ` +
          'and send its id. An operator can let Sluice fetch URLs with fetch.requestUrls.',
      ),
  )
  // A server whose behaviour is not configured may be in the operator's own network, and open any URL it is given.
  const problem = publicUrlProblem(url, fetch)
  if (problem === undefined) return fetching
  return filtered(
    fetching,
    (endpoint) => fetches(endpoint, reference) === true,
    () => invalid(param, problem),
  )
}

/**
 * Reports whether a provider opens such URLs itself; undefined where that is not configured. A reference without a kind
 * may be any file: a URL that is not an image is a file to most providers.
 */
const fetches = ({ provider, protocol }: Endpoint, { kind }: MediaReference): boolean | undefined =>
  provider.media === undefined ? undefined : provider.media[protocol]?.fetches?.includes(kind ?? 'file') === true

/** The endpoints that take all these media inline, in a request of `textBytes` without them. */
export function takingEndpoints(
  config: MediaConfig,
  all: readonly Endpoint[],
  loaded: readonly LoadedMedia[],
  textBytes: number,
): readonly Endpoint[] {
  if (loaded.length === 0) return all
  const endpoints = loaded.reduce((left, medium) => takingType(left, medium, all), all)
  const bytes = textBytes + encodedBytes(loaded)
  const largest = loaded.reduce((a, b) => (b.bytes > a.bytes ? b : a))
  return filtered(
    endpoints,
    (endpoint) => bytes <= requestBytes(config, endpoint),
    () =>
      invalid(
        largest.reference.param,
        `makes this a request of ${bytes} bytes with its media in base64; ${namesOf(endpoints)} takes at most ` +
          `${mostRequestBytes(config, endpoints)}: send less in one request`,
      ),
  )
}

/** The endpoints that take media of this type. Throws for one that the position in the request does not take. */
function takingType(
  endpoints: readonly Endpoint[],
  { reference: { kind, param }, mediaType, bytes }: LoadedMedia,
  all: readonly Endpoint[],
): readonly Endpoint[] {
  if (bytes === 0) throw invalid(param, 'is empty')
  if (kind !== undefined && mediaKind(mediaType) !== kind)
    throw invalid(param, `is ${mediaType}; expected ${kind === 'file' ? 'a document' : `the media type ${kind}/*`}`)
  const typesOf = ({ provider, protocol }: Endpoint): string[] | undefined => provider.media?.[protocol]?.inline
  return filtered(
    endpoints,
    (endpoint) => {
      const types = typesOf(endpoint)
      return types === undefined || globs(types).test(isTextual(mediaType) ? 'text/plain' : mediaType)
    },
    () =>
      invalid(
        param,
        `is ${mediaType}, which ${namesOf(all)} does not take; it takes ` +
          [...new Set(all.flatMap((endpoint) => typesOf(endpoint) ?? []))].join(', '),
      ),
  )
}

/** Most bytes of one request with its media; where the provider's limit is unknown, the limit of clients' requests. */
const requestBytes = ({ limits }: MediaConfig, { provider }: Endpoint): number =>
  provider.media?.requestBytes ?? limits.bodyBytes

/** The largest request that any of these endpoints takes. */
export const mostRequestBytes = (config: MediaConfig, endpoints: readonly Endpoint[]): number =>
  Math.max(...endpoints.map((endpoint) => requestBytes(config, endpoint)))
