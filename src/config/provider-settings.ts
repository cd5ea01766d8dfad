import type { Quirks } from '../protocols/quirks.ts'
import { API_NAMES, QUIRK_VALUES, type Modality } from './provider-terms.ts'
import { apiKeys, servingFacts } from './routing-settings.ts'
import { boolean, map, name, names, object, oneOf, string, type Shape, values } from './shape.ts'

/** The header in which a provider expects its key. */
export const AUTHS = ['bearer', 'x-api-key', 'x-goog-api-key', 'api-key', 'none'] as const
export type Auth = (typeof AUTHS)[number]

/** A kind of content that a request can refer to by URL. */
export type MediaKind = Exclude<Modality, 'text'>

export const PROVIDER_ID = /^[a-z0-9][a-z0-9._-]*$/

/** Returns what is wrong with a base URL, or undefined. */
export const baseUrlProblem = (text: string): string | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'must be an http:// or https:// URL'
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user name or password; use apiKey or headers'
  return url.search !== '' || url.hash !== '' ? 'must end with the path, without ? and #' : undefined
}

/** Headers that frame the message itself: setting them would break requests or allow request smuggling. */
const FRAMING_HEADERS = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'keep-alive',
  'expect',
  'accept-encoding',
  'content-encoding',
  'content-type',
])

const quirks = object(
  Object.fromEntries(
    Object.entries(QUIRK_VALUES).map(([quirk, values]) => [
      quirk,
      quirk === 'refuses' ? names(QUIRK_VALUES.refuses, { what: 'field names' }) : oneOf<string | boolean>(values),
    ]),
  ),
  { description: "Differences from the protocol's documentation" },
) as Shape<Quirks>

export const provider = object({
  enabled: boolean('false switches a built-in provider off'),
  name: string({ what: 'a display name', description: 'Display name' }),
  protocol: name(API_NAMES, "The provider's protocol"),
  baseUrl: string({
    what: 'an http:// or https:// URL',
    description: 'Everything before /chat/completions, /responses, /messages or /models/{model}:...',
    check: baseUrlProblem,
  }),
  apiKey: string({
    what: "the provider's key",
    description: 'Key sent to the provider; empty: none',
    check: (text) => (/^[\x21-\x7e]*$/.test(text) ? undefined : 'must be printable ASCII without spaces'),
  }),
  apiKeys,
  auth: name(AUTHS, "Header of the key; default: the protocol's"),
  headers: map(
    string({
      what: 'the value of a header',
      check: (text) => (/^[\t\x20-\x7e]*$/.test(text) ? undefined : 'must be printable ASCII'),
    }),
    {
      pattern: /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/,
      what: 'the name of a header',
      description: 'Headers sent with every request to the provider',
      check: (header) => (FRAMING_HEADERS.has(header.toLowerCase()) ? 'is set by Sluice' : undefined),
    },
  ),
  unlisted: boolean('<provider>/<any name> is sent to the provider as <any name>'),
  fetches: names<MediaKind>(['image', 'audio', 'video', 'file'], {
    what: 'kinds of media',
    description: 'Kinds of media whose URLs the provider fetches itself; these URLs are passed on',
  }),
  buckets: values(
    string({
      what: 'gs://bucket or gs://bucket/path',
      pattern: /^gs:\/\/[a-z0-9][a-z0-9._-]*(?:\/[^/?#\s]+)*\/?$/,
    }),
    {
      what: 'gs:// URIs',
      description:
        'Buckets and paths of Cloud Storage that every account may name in gs:// URIs; ' +
        "the provider reads them with the operator's rights",
    },
  ),
  sharedIds: boolean(
    'true: every account may refer to what the provider stores under its key, ' +
      'such as vector stores, stored prompts, cached contents and containers',
  ),
  ...servingFacts,
  quirks,
})
