/** Types that a browser displays without running any part of them. */
const INLINE_TYPES = /^(?:image\/(?!svg)|audio\/|video\/|application\/pdf$|text\/plain\b)/

/** Types in which a browser may run scripts when it displays them. */
const SCRIPTABLE_TYPES = /html|xml|svg|script/

const MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(?:; ?charset=[\w-]+)?$/

/**
 * Response headers for untrusted bytes: the browser does not sniff their type and runs nothing in our origin.
 * `filename`: they are downloaded under this name, never displayed.
 */
export function contentHeaders(mediaType: string, filename?: string): Record<string, string> {
  // Providers may send any text as the type; browsers ignore its case.
  const type = MEDIA_TYPE.test(mediaType) ? mediaType.toLowerCase() : 'application/octet-stream'
  const disposition = INLINE_TYPES.test(type) ? 'inline' : 'attachment'
  return {
    'content-type': type,
    'content-disposition': filename === undefined ? disposition : `attachment; ${filenameParameters(filename)}`,
    'x-content-type-options': 'nosniff',
    ...(SCRIPTABLE_TYPES.test(type) ? { 'content-security-policy': "sandbox; default-src 'none'" } : {}),
  }
}

/**
 * The one range of bytes that a `Range` header asks for, `to` excluded: of 0 bytes where the size has none of it.
 * Undefined for all bytes, and for headers that may be ignored (RFC 9110, 14.2).
 */
export function rangeOf(header: string | null, size: number): { from: number; to: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.trim() ?? '') ?? []
  if (first === '') return last === '' ? undefined : { from: Math.max(0, size - Number(last)), to: size }
  if (last !== '' && Number(last) < Number(first)) return undefined
  const from = Math.min(Number(first), size)
  return { from, to: last === '' ? size : Math.max(from, Math.min(Number(last) + 1, size)) }
}

/** RFC 6266: the name in ASCII for old clients, and in full (RFC 5987) for the others. */
function filenameParameters(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `filename="${ascii}"; filename*=UTF-8''${encoded}`
}
