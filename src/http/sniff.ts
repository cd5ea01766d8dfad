import { isUtf8 } from 'node:buffer'

/** Length of the prefix that is examined. */
export const SNIFFED_BYTES = 4096

/** Media types by file prefix, decoded as Latin-1; the first match wins. */
const PREFIXES: readonly (readonly [RegExp, string])[] = [
  [/^\x89PNG\r\n\x1a\n/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[^]{4}WEBP/, 'image/webp'],
  [/^[^]{4}ftypavi[fs]/, 'image/avif'],
  [/^[^]{4}ftyp(?:hei[cmsx]|hev[cx]|mif1|msf1)/, 'image/heic'],
  [/^BM[^]{4}\0{4}/, 'image/bmp'],
  [/^(?:II\*\0|MM\0\*)/, 'image/tiff'],
  [/^%PDF-/, 'application/pdf'],
  [/^RIFF[^]{4}WAVE/, 'audio/wav'],
  [/^RIFF[^]{4}AVI /, 'video/x-msvideo'],
  [/^OggS/, 'audio/ogg'],
  [/^fLaC/, 'audio/flac'],
  [/^ID3/, 'audio/mpeg'],
  [/^\xff[\xf0\xf1\xf8\xf9]/, 'audio/aac'],
  [/^\xff[\xf2-\xf7\xfa-\xfd\xe2-\xe7][\x10-\xef]/, 'audio/mpeg'],
  [/^[^]{4}ftypM4[AB] /, 'audio/mp4'],
  [/^[^]{4}ftypqt {2}/, 'video/quicktime'],
  [/^[^]{4}ftyp/, 'video/mp4'],
  [/^\x1aE\xdf\xa3[^]{0,60}webm/, 'video/webm'],
  [/^\0\0\x01[\xb3\xba]/, 'video/mpeg'],
  [/^\x1f\x8b\x08/, 'application/gzip'],
]

const WORD = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'
const EXCEL = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'
const POWERPOINT = 'application/vnd.openxmlformats-officedocument.presentationml.presentation'

/** Media types of zip files by the names of their first entries. */
const ZIP_ENTRIES: readonly (readonly [RegExp, string])[] = [
  [/PK\x03\x04[^]{26}word\//, WORD],
  [/PK\x03\x04[^]{26}xl\//, EXCEL],
  [/PK\x03\x04[^]{26}ppt\//, POWERPOINT],
]

/** The elements by which browsers recognize HTML (WHATWG MIME Sniffing, 7.1). */
const HTML_STARTS = '!doctype html|html|head|body|script|iframe|style|title|table|div|h1|p|a|img|br|b|font|form'

/** Media types of markup by its first element. */
const MARKUP: readonly (readonly [RegExp, string])[] = [
  [/^(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->)[^])*-->\s*|<!DOCTYPE svg[^>]*>\s*)*<svg[\s>]/i, 'image/svg+xml'],
  [new RegExp(String.raw`^(?:<!--(?:(?!-->)[^])*-->\s*)*<(?:${HTML_STARTS})[\s>/]`, 'i'), 'text/html'],
  [/^<\?xml[^>]*>(?:\s|<!--(?:(?!-->)[^])*-->|<!DOCTYPE[^>]*>)*<html[\s>]/i, 'text/html'],
  [/^<\?xml\s/, 'text/xml'],
]

/** Subtypes of `application/` whose files are text. */
const TEXT_APPLICATIONS = 'json|jsonl|x-ndjson|x-jsonlines|yaml|x-yaml|toml|sql|rtf|x-sh|javascript|typescript|x-python'

/** By sniffed type: the declared types that refine it, because the bytes cannot tell them apart. */
const REFINEMENTS: Readonly<Record<string, RegExp>> = {
  'text/plain': new RegExp(String.raw`^(?:text\/(?!html$|xml$)[\w.+-]+|application\/(?:${TEXT_APPLICATIONS}))$`),
  'application/json': /^application\/(?:[\w.-]+\+json|jsonl|x-ndjson|x-jsonlines)$/,
  'application/jsonl': /^application\/(?:x-ndjson|x-jsonlines)$/,
  'application/zip': /^application\/(?:vnd\.(?:openxmlformats-officedocument|oasis\.opendocument)\.[\w.-]+|epub\+zip)$/,
  'video/mp4': /^audio\/(?:mp4|x-m4a)$/,
  'audio/ogg': /^(?:video\/ogg|audio\/opus)$/,
  'video/webm': /^audio\/webm$/,
}

/** The type assumed to be declared if a client declares none. */
const TYPE_BY_EXTENSION: Readonly<Record<string, string>> = {
  md: 'text/markdown',
  markdown: 'text/markdown',
  csv: 'text/csv',
  tsv: 'text/tab-separated-values',
  json: 'application/json',
  jsonl: 'application/jsonl',
  ndjson: 'application/jsonl',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  css: 'text/css',
  js: 'text/javascript',
  ts: 'text/x-typescript',
  py: 'text/x-python',
  docx: WORD,
  xlsx: EXCEL,
  pptx: POWERPOINT,
  epub: 'application/epub+zip',
  m4a: 'audio/mp4',
  opus: 'audio/opus',
}

/**
 * The media type of a file from its first SNIFFED_BYTES bytes. `declared` and the extension of `filename` only refine
 * it, for example from text to Markdown; they never contradict the bytes. `application/octet-stream` if unknown.
 */
export function sniff(head: Uint8Array, declared?: string, filename = ''): string {
  const sniffed = typeOfBytes(head.subarray(0, SNIFFED_BYTES))
  const declaredType = declared?.split(';')[0]!.trim().toLowerCase() ?? ''
  const isInformative = !['', 'application/octet-stream', sniffed].includes(declaredType)
  const refinement = isInformative
    ? declaredType
    : TYPE_BY_EXTENSION[/\.(\w+)$/.exec(filename)?.[1]?.toLowerCase() ?? '']
  return refinement !== undefined && REFINEMENTS[sniffed]?.test(refinement) === true ? refinement : sniffed
}

function typeOfBytes(head: Uint8Array): string {
  const bytes = Buffer.from(head.buffer, head.byteOffset, head.byteLength)
  const latin = bytes.toString('latin1')
  const match = PREFIXES.find(([prefix]) => prefix.test(latin))
  if (match !== undefined) return match[1]
  if (/^PK(?:\x03\x04|\x05\x06)/.test(latin))
    return ZIP_ENTRIES.find(([entry]) => entry.test(latin))?.[1] ?? 'application/zip'
  if (!isText(bytes)) return 'application/octet-stream'
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  return typeOfText(text.trimStart())
}

/** True for UTF-8, possibly cut in the last character, without the control characters that text does not have. */
function isText(bytes: Buffer): boolean {
  if (bytes.some((byte) => byte < 0x20 && !TEXT_CONTROLS.has(byte))) return false
  return [0, 1, 2, 3].some((cut) => isUtf8(bytes.subarray(0, bytes.length - (bytes.length < SNIFFED_BYTES ? 0 : cut))))
}

/** Tab, line feed, form feed, carriage return, and the escape character of terminal colours. */
const TEXT_CONTROLS = new Set([0x09, 0x0a, 0x0c, 0x0d, 0x1b])

function typeOfText(text: string): string {
  const markup = MARKUP.find(([start]) => start.test(text))
  if (markup !== undefined) return markup[1]
  if (!/^(?:\{\s*["}]|\[\s*(?:[\]["{\d-]|true|false|null))/.test(text)) return 'text/plain'
  const [line = '', ...more] = text.split('\n')
  return more.some((later) => /^\s*[{[]/.test(later)) && isJson(line) ? 'application/jsonl' : 'application/json'
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
