import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { boundaryOf, MultipartReader, type PartHead } from '../../src/http/multipart.ts'

type Part = PartHead & { content: string }

/** The parts of a body that arrives in these chunks of Latin-1, or its error. */
function readAll(boundary: string, chunks: readonly string[]): Part[] | string {
  const parts: Part[] = []
  try {
    const reader = new MultipartReader(boundary)
    let isOpen = false
    for (const chunk of chunks) {
      const bytes = new Uint8Array(Buffer.from(chunk, 'latin1'))
      for (const event of reader.read(bytes)) {
        if ('part' in event) {
          expect(isOpen).toBe(false)
          isOpen = true
          parts.push({ ...event.part, content: '' })
        } else if ('end' in event) {
          expect(isOpen).toBe(true)
          isOpen = false
        } else {
          expect(isOpen).toBe(true)
          expect(event.bytes.length).toBeGreaterThan(0)
          parts.at(-1)!.content += Buffer.from(event.bytes).toString('latin1')
        }
      }
      // readChunks frees a chunk when the next one is requested.
      bytes.buffer.transfer(0)
    }
    reader.end()
    expect(isOpen).toBe(false)
    return parts
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.code}: ${error.message}`
  }
}

/** Cuts a text at these offsets, modulo its length. */
function cut(text: string, at: readonly number[]): string[] {
  const offsets = [...new Set([0, ...at.map((one) => one % (text.length + 1)), text.length])].sort((x, y) => x - y)
  return offsets.slice(1).map((offset, index) => text.slice(offsets[index], offset))
}

const BOUNDARY = 'abc--d'
const write = (parts: readonly { head: string; content: string }[], boundary = BOUNDARY): string =>
  `${parts.map(({ head, content }) => `--${boundary}\r\n${head}\r\n\r\n${content}\r\n`).join('')}--${boundary}--\r\n`
const field = (name: string, content: string): { head: string; content: string } => ({
  head: `Content-Disposition: form-data; name="${name}"`,
  content,
})

/** Contents that resemble a boundary but do not contain one. */
const content = fc
  .array(
    fc.constantFrom(
      '\r\n',
      '\r',
      '\n',
      '-',
      '--',
      `--${BOUNDARY.slice(0, 3)}`,
      `\r\n--${BOUNDARY.slice(0, -1)}`,
      'x',
      '\0',
      '\xff',
      '\r\n--',
      '"',
      ';',
    ),
    { maxLength: 30 },
  )
  .map((fragments) => fragments.join(''))
  .filter((text) => !`\r\n${text}\r\n`.includes(`\r\n--${BOUNDARY}`))

describe('the parts', () => {
  test('parts are read unchanged wherever the body is cut', () => {
    fc.assert(
      fc.property(fc.array(content, { maxLength: 6 }), fc.array(fc.nat(), { maxLength: 40 }), (contents, offsets) => {
        const body = write(contents.map((text, index) => field(`f${index}`, text)))
        expect(readAll(BOUNDARY, cut(body, offsets))).toEqual(
          contents.map((text, index) => ({
            name: `f${index}`,
            filename: undefined,
            mediaType: undefined,
            content: text,
          })),
        )
      }),
      { numRuns: 500 },
    )
  })

  test("parts of the runtime's FormData are read", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(content, { minLength: 1, maxLength: 4 }), async (contents) => {
        const form = new FormData()
        for (const [index, text] of contents.entries())
          form.append(`f${index}`, new Blob([Buffer.from(text, 'latin1')], { type: 'text/x-a' }), `n"${index}.bin`)
        const sent = new Response(form)
        const boundary = boundaryOf(sent.headers.get('content-type'))
        const body = Buffer.from(await sent.arrayBuffer()).toString('latin1')
        expect(readAll(boundary, cut(body, [10, 50, 90, 200]))).toEqual(
          contents.map((text, index) => ({
            name: `f${index}`,
            filename: `n"${index}.bin`,
            mediaType: 'text/x-a',
            content: text,
          })),
        )
      }),
      { numRuns: 50 },
    )
  })

  test('a damaged body gives the same parts or error wherever it is cut', () => {
    const body = write([
      field('a', 'one'),
      {
        head: 'Content-Disposition: form-data; name="file"; filename="x.txt"\r\nContent-Type: text/plain',
        content: 'two\r\n--abc\r\n',
      },
      field('b', ''),
    ])
    let refused = 0
    fc.assert(
      fc.property(
        fc.nat(),
        fc.nat({ max: 12 }),
        fc.constantFrom('', '\r', '\n', '\r\n', '--', '\0', `\r\n--${BOUNDARY}`, '\r\n\r\n', ' ', 'x'),
        fc.array(fc.nat(), { maxLength: 30 }),
        (at, removed, inserted, offsets) => {
          const from = at % body.length
          const damaged = body.slice(0, from) + inserted + body.slice(from + removed)
          const whole = readAll(BOUNDARY, [damaged])
          if (typeof whole === 'string') refused += 1
          expect(readAll(BOUNDARY, cut(damaged, offsets))).toEqual(whole)
          expect(readAll(BOUNDARY, [...damaged])).toEqual(whole)
        },
      ),
      { numRuns: 500 },
    )
    expect(refused).toBeGreaterThan(50)
  })

  test('content is emitted at once and not kept', () => {
    const reader = new MultipartReader(BOUNDARY)
    const contentBytes = (text: string): number =>
      [...reader.read(Buffer.from(text))].reduce((sum, event) => sum + ('bytes' in event ? event.bytes.length : 0), 0)
    contentBytes(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n`)
    expect(contentBytes('x'.repeat(100_000))).toBe(100_000)
    expect(contentBytes('\r\n--ab')).toBe(0)
    expect(contentBytes('x')).toBe(7)
  })
})

describe('the headers of a part', () => {
  const disposition = (value: string): Part[] | string =>
    readAll(BOUNDARY, [write([{ head: `content-disposition: ${value}`, content: '' }])])
  test.each([
    ['form-data; name=plain', { name: 'plain' }],
    ['FORM-DATA;name="x";filename="a b.txt"', { filename: 'a b.txt' }],
    ['form-data; name="x"; filename="a\\"b.txt"', { filename: 'a"b.txt' }],
    ['form-data; name="x"; filename="C:\\dir\\f.txt"', { filename: 'C:\\dir\\f.txt' }],
    ['form-data; name="x"; filename="a%22b"', { filename: 'a"b' }],
    ['form-data; name="x"; filename="a;b=c"', { filename: 'a;b=c' }],
    ['form-data; name="x"; filename="old"; filename*=UTF-8\'\'na%C3%AFve.txt', { filename: 'naïve.txt' }],
    ['form-data; name="x"; filename=""', { filename: '' }],
    ['form-data; name="expires_after[anchor]"', { name: 'expires_after[anchor]' }],
    ['form-data; name="x"; filename="../../etc/passwd"', { filename: '../../etc/passwd' }],
    ['form-data; other=1; name="x"', { name: 'x' }],
    ['form-data; name="x"; filename="na\xc3\xafve"', { filename: 'naïve' }],
  ])('Content-Disposition %s is parsed', (value, expected) => {
    expect(disposition(value)).toEqual([expect.objectContaining(expected)])
  })

  test.each([
    'attachment; name="x"',
    'form-data',
    'form-data; name=""',
    'form-data; name="x"; name="y"',
    'form-data; name="x',
    'form-data; name="x" filename="y"',
    'form-data; name="x";',
    'form-datax; name="x"',
    'form-data; name="x"; filename="a\\"',
    'form-data; name="x"; filename*=latin1\'\'a',
    'form-data; name="x"; filename*=UTF-8\'\'%FF',
    'form-data; name="x"; filename*=UTF-8\'\'%zz',
    'form-data; name="a\0b"',
    'form-data; name="\xff"',
  ])('Content-Disposition %j is refused', (value) => {
    expect(disposition(value)).toStartWith('invalid_request: body: cannot be read as multipart/form-data: ')
  })

  test.each([
    ['no headers', ''],
    ['no colon', 'content-disposition'],
    ['a space before the colon', 'content-disposition : form-data; name="x"'],
    ['a folded line', 'content-disposition: form-data;\r\n name="x"'],
    ['a single line feed', 'content-disposition: form-data; name="x"\nx-a: b'],
    ['a repeated header', 'content-disposition: form-data; name="x"\r\ncontent-disposition: form-data; name="y"'],
    ['encoded content', 'content-disposition: form-data; name="x"\r\ncontent-transfer-encoding: base64'],
    ['nested multipart', 'content-disposition: form-data; name="x"\r\ncontent-type: multipart/mixed; boundary=y'],
    [
      'too many headers',
      ['content-disposition: form-data; name="x"', ...Array.from({ length: 21 }, (_, index) => `x-${index}: 1`)].join(
        '\r\n',
      ),
    ],
    ['a header that is too long', `content-disposition: form-data; name="x"\r\nx-a: ${'a'.repeat(20_000)}`],
  ])('a part with %s is refused', (_, head) => {
    const body = `--${BOUNDARY}\r\n${head}${head === '' ? '' : '\r\n'}\r\ncontent\r\n--${BOUNDARY}--\r\n`
    for (const chunks of [[body], [...body]]) expect(readAll(BOUNDARY, chunks)).toStartWith('invalid_request: ')
  })
})

describe('a body', () => {
  const one = field('a', '1')
  test.each([
    ['no content', ''],
    ['no boundary', 'a=1&b=2'],
    ['another boundary', write([one], 'other')],
    ['no closing boundary', write([one]).slice(0, -8)],
    ['half a closing boundary', write([one]).slice(0, -3)],
    ['line feeds for line breaks', write([one]).replaceAll('\r\n', '\n')],
    ['text after a boundary in its line', write([one]).replace(`--${BOUNDARY}\r\n`, `--${BOUNDARY}x\r\n`)],
    ['a boundary in its content', write([field('a', `\r\n--${BOUNDARY}ef`)])],
    ['an endless preamble', 'x'.repeat(10_000_000)],
    ['an endless epilogue', write([one]) + 'x'.repeat(100_000)],
    ['too many parts', write(Array.from({ length: 65 }, () => one))],
    ['an endless head', `--${BOUNDARY}\r\n${'x'.repeat(1_000_000)}`],
    ['two closing boundaries', `${write([field('a', `1\r\n--${BOUNDARY}--\r\n2`)])}`],
    ['text after the closing boundary, then another', write([field('a', `1\r\n--${BOUNDARY}--x`)])],
    ['endless padding', `--${BOUNDARY}${' '.repeat(100_000)}`],
  ])('a body with %s is refused', (_, body) => {
    expect(readAll(BOUNDARY, [body])).toStartWith('invalid_request: body: cannot be read as multipart/form-data: ')
    const chunks = cut(
      body,
      Array.from({ length: 1000 }, (_, index) => index * 97),
    )
    expect(readAll(BOUNDARY, chunks)).toBe(readAll(BOUNDARY, [body]))
  })

  test('a body may have a preamble, padding, an epilogue, no parts, and 64', () => {
    expect(
      readAll(BOUNDARY, [`preamble\r\n${write([one]).replace(BOUNDARY, `${BOUNDARY} \t `)}epilogue\r\n--\r\n`]),
    ).toEqual([expect.objectContaining({ name: 'a', content: '1' })])
    expect(readAll(BOUNDARY, [`--${BOUNDARY}--`])).toEqual([])
    expect(readAll(BOUNDARY, [write(Array.from({ length: 64 }, () => one))])).toHaveLength(64)
  })
})

describe('boundaryOf', () => {
  test.each([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['Multipart/Form-Data;charset=utf-8;  Boundary="a b:c"', 'a b:c'],
    [`multipart/form-data; boundary=${'x'.repeat(70)}`, 'x'.repeat(70)],
    ['multipart/form-data; boundary=----WebKitFormBoundary7MA4', '----WebKitFormBoundary7MA4'],
  ])('the boundary of %s is %s', (type, boundary) => {
    expect(boundaryOf(type)).toBe(boundary)
  })

  test.each([
    [
      'unsupported_media_type',
      [null, '', 'application/json', 'multipart/mixed; boundary=a', 'multipart/form-datax; boundary=a'],
    ],
    [
      'invalid_request',
      [
        'multipart/form-data',
        'multipart/form-data; boundary=',
        'multipart/form-data; boundary=""',
        `multipart/form-data; boundary=${'x'.repeat(71)}`,
        'multipart/form-data; boundary="a "',
        'multipart/form-data; boundary="a\r\nb"',
        'multipart/form-data; boundary=a; boundary=b',
        'multipart/form-data; boundary=\xe9',
      ],
    ],
  ])('a Content-Type without a valid boundary is refused: %s', (code, types) => {
    for (const type of types) {
      let result: unknown
      try {
        result = boundaryOf(type)
      } catch (error) {
        result = (error as GatewayError).code
      }
      expect([type, result]).toEqual([type, code])
    }
  })
})
