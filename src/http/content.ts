/** What a browser shows without running anything of it. */
const SHOWN = /^(?:image\/(?!svg)|audio\/|video\/|application\/pdf$|text\/plain\b)/

/** What a browser may run something of, where it shows it all the same. */
const ACTIVE = /html|xml|svg|script/

const MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(?:; ?charset=[\w-]+)?$/

/**
 * The headers of bytes that a stranger made: their type is taken as it is said, and nothing in them runs in our origin.
 * `filename`: they are saved under it, never shown.
 */
export function contentHeaders(mediaType: string, filename?: string): Record<string, string> {
  // A provider may call what it made anything; a browser reads it in any case.
  const type = MEDIA_TYPE.test(mediaType) ? mediaType.toLowerCase() : 'application/octet-stream'
  return {
    'content-type': type,
    'content-disposition':
      filename !== undefined ? `attachment; ${filenameOf(filename)}` : SHOWN.test(type) ? 'inline' : 'attachment',
    'x-content-type-options': 'nosniff',
    ...(ACTIVE.test(type) ? { 'content-security-policy': "sandbox; default-src 'none'" } : {}),
  }
}

/** RFC 6266: the name in ASCII for old clients, and as it is for the others. */
const filenameOf = (name: string): string =>
  `filename="${name.replace(/[^\x20-\x7e]|["\\%]/g, '_')}"; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)}`
