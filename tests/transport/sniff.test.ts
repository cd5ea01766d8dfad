import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { SNIFFED_BYTES, sniff } from '../../src/http/sniff.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1')
/** An entry of a zip file, up to its name. */
const entry = (name: string): string => `PK\x03\x04${'\0'.repeat(26)}${name}`
const OFFICE = 'application/vnd.openxmlformats-officedocument'

const KINDS: [string, string][] = [
  ['\x89PNG\r\n\x1a\n\0\0', 'image/png'],
  ['\xff\xd8\xff\xe0', 'image/jpeg'],
  ['GIF89a', 'image/gif'],
  ['GIF87a', 'image/gif'],
  ['RIFF1234WEBPVP8 ', 'image/webp'],
  ['\0\0\0\x1cftypavif', 'image/avif'],
  ['\0\0\0\x18ftypheic', 'image/heic'],
  ['\0\0\0\x18ftypmif1', 'image/heic'],
  ['BM1234\0\0\0\0', 'image/bmp'],
  ['II*\0', 'image/tiff'],
  ['%PDF-1.7\n', 'application/pdf'],
  ['RIFF1234WAVEfmt ', 'audio/wav'],
  ['RIFF1234AVI LIST', 'video/x-msvideo'],
  ['OggS\0', 'audio/ogg'],
  ['fLaC\0', 'audio/flac'],
  ['ID3\x04', 'audio/mpeg'],
  ['\xff\xfb\x90\x44', 'audio/mpeg'],
  ['\xff\xf3\x40', 'audio/mpeg'],
  ['\xff\xf1\x50', 'audio/aac'],
  ['\0\0\0\x1cftypM4A \0', 'audio/mp4'],
  ['\0\0\0\x18ftypmp42', 'video/mp4'],
  ['\0\0\0\x20ftypisom', 'video/mp4'],
  ['\0\0\0\x14ftypqt  ', 'video/quicktime'],
  ['\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm', 'video/webm'],
  ['\0\0\x01\xba!', 'video/mpeg'],
  ['\x1f\x8b\x08\0', 'application/gzip'],
  [entry('a.txt'), 'application/zip'],
  ['PK\x05\x06\0', 'application/zip'],
  [`${entry('[Content_Types].xml')}<x>${entry('word/document.xml')}`, `${OFFICE}.wordprocessingml.document`],
  [`${entry('[Content_Types].xml')}<x>${entry('xl/workbook.xml')}`, `${OFFICE}.spreadsheetml.sheet`],
  [entry('ppt/presentation.xml'), `${OFFICE}.presentationml.presentation`],
  ['{"a": 1}', 'application/json'],
  ['[1, 2]', 'application/json'],
  ['{\n  "a": [', 'application/json'],
  ['{"a":1}\n{"a":2}\n', 'application/jsonl'],
  ['<!DOCTYPE html><p>', 'text/html'],
  ['  <html lang="en">', 'text/html'],
  ['<!-- x --><script>1</script>', 'text/html'],
  ['<img src=x onerror=1>', 'text/html'],
  ['<?xml version="1.0"?><html xmlns="x">', 'text/html'],
  ['<svg onload="1">', 'image/svg+xml'],
  ['\xef\xbb\xbf<?xml version="1.0"?>\n<!-- x -->\n<svg >', 'image/svg+xml'],
  ['<?xml version="1.0"?><rss>', 'text/xml'],
  ['Hello, world', 'text/plain'],
  ['# Title\n', 'text/plain'],
  ['[note] this is none', 'text/plain'],
  ['{ no json }', 'text/plain'],
  ['caf\xc3\xa9', 'text/plain'],
  ['caf\xe9', 'application/octet-stream'],
  ['a\0b', 'application/octet-stream'],
  ['\xff\xfe\0', 'application/octet-stream'],
  ['', 'text/plain'],
]

describe('the type of bytes', () => {
  test.each(KINDS)('%j is %s', (text, mediaType) => {
    expect(sniff(bytes(text))).toBe(mediaType)
  })

  test('text that is cut inside a character is text/plain', () => {
    for (let pad = 0; pad < 4; pad++)
      expect(sniff(Buffer.from(`${'x'.repeat(SNIFFED_BYTES - pad)}\u{1f600}`).subarray(0, SNIFFED_BYTES))).toBe(
        'text/plain',
      )
  })

  test('input made to be slow takes less than 200 ms', () => {
    for (const text of [
      '<!---->'.repeat(600),
      '<!--'.repeat(1000),
      `<?xml ?>${' '.repeat(4000)}`,
      '<?xml '.repeat(600),
      '<!DOCTYPE svg '.repeat(300),
      '['.repeat(4000),
    ]) {
      const startedAt = performance.now()
      sniff(Buffer.from(`${text}x`))
      expect([text.slice(0, 9), performance.now() - startedAt < 200]).toEqual([text.slice(0, 9), true])
    }
  })

  test('any input gives a media type', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.string(), fc.string(), (head, declared, filename) => {
        expect(sniff(head, declared, filename)).toMatch(/^[a-z]+\/[\w.+-]+$/)
      }),
    )
  })
})

describe('the declared type', () => {
  test.each([
    ['# Title', 'text/markdown', '', 'text/markdown'],
    ['a,b\n', 'text/csv; charset=utf-8', '', 'text/csv'],
    ['a,b\n', undefined, 'x.CSV', 'text/csv'],
    ['a,b\n', 'application/octet-stream', 'x.csv', 'text/csv'],
    ['{"a":1}', 'application/jsonl', '', 'application/jsonl'],
    ['{"a":1}', undefined, 'x.jsonl', 'application/jsonl'],
    ['{"a":1}', 'application/geo+json', '', 'application/geo+json'],
    [entry('mimetype'), 'application/epub+zip', '', 'application/epub+zip'],
    [entry('a'), undefined, 'x.docx', `${OFFICE}.wordprocessingml.document`],
    ['\0\0\0\x18ftypmp42', 'audio/mp4', '', 'audio/mp4'],
    ['\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm', 'audio/webm', '', 'audio/webm'],
  ])('%j declared as %s %s is refined to %s', (text, declared, filename, mediaType) => {
    expect(sniff(bytes(text), declared, filename)).toBe(mediaType)
  })

  test.each([
    ['<html>', 'image/png', 'x.png', 'text/html'],
    ['<html>', 'text/plain', '', 'text/html'],
    ['Hello', 'text/html', 'x.html', 'text/plain'],
    ['Hello', 'image/svg+xml', '', 'text/plain'],
    ['Hello', 'image/png', '', 'text/plain'],
    ['\x89PNG\r\n\x1a\n', 'image/jpeg', 'x.jpg', 'image/png'],
    ['\x89PNG\r\n\x1a\n', 'text/html', '', 'image/png'],
    ['\0\x01\x02', 'image/png', '', 'application/octet-stream'],
    ['%PDF-1.4', 'text/html', '', 'application/pdf'],
    ['<svg >', 'image/png', '', 'image/svg+xml'],
    [entry('a'), 'text/html', '', 'application/zip'],
    ['Hello', 'text/html\r\nx-a: b', '', 'text/plain'],
    ['Hello', 'text/x y', '', 'text/plain'],
  ])('%j declared as %s %s is still %s', (text, declared, filename, mediaType) => {
    expect(sniff(bytes(text), declared, filename)).toBe(mediaType)
  })
})
