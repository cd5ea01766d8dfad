import { heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { createParser } from 'eventsource-parser'
import fc from 'fast-check'
import { type Frame, FrameSplitter, MAX_FRAME_LENGTH, writeFrame } from '../../src/http/frames.ts'

const encode = (text: string): Buffer => Buffer.from(text)

const split = (chunks: Uint8Array[]): Frame[] => {
  const splitter = new FrameSplitter()
  return [...chunks.flatMap((chunk) => splitter.push(chunk)), ...splitter.end()]
}

const cutAt = (bytes: Buffer, cuts: number[]): Uint8Array[] => {
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return at.slice(1).map((to, i) => bytes.subarray(at[i]!, to))
}

describe('FrameSplitter', () => {
  const cases: [string, string, Frame[]][] = [
    [
      'frames with and without an event name',
      'event: a\ndata: 1\n\ndata: 2\n\n',
      [{ event: 'a', data: '1' }, { data: '2' }],
    ],
    ['data without a space after the colon', 'data:1\n\n', [{ data: '1' }]],
    ['two spaces after the colon, the second as data', 'data:  1\n\n', [{ data: ' 1' }]],
    ['several data lines as one text', 'data: {\ndata: }\n\n', [{ data: '{\n}' }]],
    ['an empty data line', 'data\ndata:\n\n', [{ data: '\n' }]],
    ['past comments, ids and retries', ': hi\nid: 4\nretry: 5\ndata: 1\n: no\n\n', [{ data: '1' }]],
    ['an event name without data as no frame', 'event: ping\n\ndata: 1\n\n', [{ data: '1' }]],
    ['past a field whose name begins with data', 'database: x\ndata: 1\n\n', [{ data: '1' }]],
    ['CRLF line ends', 'event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n', [{ event: 'a', data: '1' }, { data: '2' }]],
    ['CR line ends', 'data: 1\r\rdata: 2\r\r', [{ data: '1' }, { data: '2' }]],
    ['past a byte order mark', '\ufeffdata: 1\n\n', [{ data: '1' }]],
    ['a last frame without its blank line', 'data: 1\n\ndata: 2\n', [{ data: '1' }, { data: '2' }]],
    ['a last line without its end', 'data: 1\n\ndata: 2', [{ data: '1' }, { data: '2' }]],
    [
      'JSON without a field name over several lines',
      'data: 1\n\n{\n  "error": {\n    "code": 500\n  }\n}\n',
      [{ data: '1' }, { data: '{\n  "error": {\n    "code": 500\n  }\n}', unprefixed: true }],
    ],
    [
      'an array without a field name, then a frame',
      '[{"error":1}]\n\ndata: 2\n\n',
      [{ data: '[{"error":1}]', unprefixed: true }, { data: '2' }],
    ],
    [
      'JSON without a field name and without a blank line before the next frame',
      '{"error":1}\ndata: 2\n\n',
      [{ data: '{"error":1}', unprefixed: true }, { data: '2' }],
    ],
    ['an event line without a value as no event name', 'event: a\nevent\ndata: 1\n\n', [{ data: '1' }]],
    ['past a JSON line inside a frame', 'data: 1\n{"a":1}\n\n', [{ data: '1' }]],
  ]
  for (const [title, text, frames] of cases) {
    test(`reads ${title}`, () => {
      expect(split([encode(text)])).toEqual(frames)
      expect(split([...encode(text)].map((byte) => Uint8Array.of(byte)))).toEqual(frames)
    })
  }
})

describe('after a whole frame', () => {
  test.each([
    ['a frame that comes in two pieces is one', ['data: 1\nd', 'ata: 2\n\n'], [{ data: '1\n2' }]],
    ['a field that only ends like data is none', ['Xata: 1\n\n'], []],
    ['the rest of a comment is no frame', ['\n: see ', 'data: 1\n\n'], []],
    ['another frame is read', ['data: 1\n\n'], [{ data: '1' }]],
    ['a frame of two lines has both', ['data: 1\rdata: 2\n\n'], [{ data: '1\n2' }]],
  ])('%s', (_, chunks, frames) => {
    for (const bytesOf of [encode, (text: string) => new Uint8Array(encode(text))] as ((text: string) => Uint8Array)[])
      expect(split(['data: 0\n\n', ...chunks].map(bytesOf))).toEqual([{ data: '0' }, ...frames])
  })
})

test('a stream that ends within a character has a mark in its place', () => {
  const bytes = encode('data: 水')
  expect(split([bytes.subarray(0, bytes.length - 1)])).toEqual([{ data: '\ufffd' }])
})

const lineEnd = fc.constantFrom('\n', '\n', '\n', '\r\n', '\r')
const word = fc.oneof(
  fc.constantFrom(
    'data',
    'event',
    'id',
    'retry',
    ':',
    ': ',
    '',
    ' ',
    '{',
    '[',
    'é',
    '水',
    '🌊',
    '"a": 1',
    'data:',
    'data: ',
    'event: ',
    'x',
  ),
  fc.string({ maxLength: 5 }),
)
const stream = fc
  .array(
    fc.tuple(
      fc.array(word, { maxLength: 5 }).map((words) => words.join('')),
      lineEnd,
    ),
    { maxLength: 25 },
  )
  .map((lines) => lines.flat().join(''))

test('any cut of the bytes gives the same frames', () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat(), { maxLength: 12 }), (text, cuts) => {
      const bytes = encode(text)
      expect(split(cutAt(bytes, cuts))).toEqual(split([bytes]))
    }),
    { numRuns: 500 },
  )
})

test('chunks of one frame each give the same frames as all at once', () => {
  const line = fc
    .oneof(word, fc.constantFrom('a', '\ufeff', 'a\rb', '\r', 'data: b', '\n'))
    .map((text) => `data: ${text}\n\n`)
  const chunk = fc.oneof({ weight: 4, arbitrary: line }, { weight: 1, arbitrary: stream })
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 8 }), (chunks) => {
      expect(split(chunks.map(encode))).toEqual(split([encode(chunks.join(''))]))
    }),
    { numRuns: 1000 },
  )
})

test('FrameSplitter reads the same frames as another parser', () => {
  // Two blank lines complete the last frame. The parsers differ on JSON without a field name and on empty event names.
  const common = stream
    .filter((text) => !/(^|[\r\n])[{[]/.test(text) && !text.includes('\0'))
    .map((text) => text + '\n\n\n')
  fc.assert(
    fc.property(common, (text) => {
      const others: Frame[] = []
      const parser = createParser({
        onEvent: ({ event, data }) => {
          others.push(event === undefined ? { data } : { event, data })
        },
      })
      parser.feed(text)
      expect(split([encode(text)])).toEqual(others)
    }),
    { numRuns: 500 },
  )
})

test('each frame may have as many characters as the limit', () => {
  const longest = 'data: ' + 'x'.repeat(MAX_FRAME_LENGTH - 6)
  const splitter = new FrameSplitter()
  const lengths = splitter.push(encode(`: a\n\n${longest}\n\n${longest}\n\n`)).map(({ data }) => data.length)
  expect(lengths).toEqual([MAX_FRAME_LENGTH - 6, MAX_FRAME_LENGTH - 6])
  let error: unknown
  try {
    new FrameSplitter().push(encode(`${longest}x\n\n`))
  } catch (thrown) {
    error = thrown
  }
  expect(error).toMatchObject({ code: 'upstream_error', message: expect.stringContaining('16 MiB') as string })
})

test('a frame over the limit is refused, in one chunk or many', () => {
  const long = encode('data: ' + 'x'.repeat(MAX_FRAME_LENGTH))
  expect(() => new FrameSplitter().push(long)).toThrow('16 MiB')
  const splitter = new FrameSplitter()
  expect(() => {
    for (let at = 0; at < long.length; at += 1 << 20) splitter.push(long.subarray(at, at + (1 << 20)))
  }).toThrow('16 MiB')
  const lines = new FrameSplitter()
  expect(() => {
    for (let i = 0; i < 20; i += 1) lines.push(encode('data: ' + 'x'.repeat(1 << 20) + '\n'))
  }).toThrow('16 MiB')
})

test('a large frame in small chunks takes linear time', () => {
  const chunks = Array.from({ length: 15_000 }, () => encode('x'.repeat(1000)))
  expect(split([encode('data: '), ...chunks, encode('\n\n')])[0]!.data.length).toBe(15_000_000)
})

describe('writeFrame', () => {
  test('a frame is written as the HTML standard specifies', () => {
    expect(writeFrame({ data: '1' })).toBe('data: 1\n\n')
    expect(writeFrame({ event: 'a', data: '1\n2\r\n3\r4' })).toBe('event: a\ndata: 1\ndata: 2\ndata: 3\ndata: 4\n\n')
    expect(writeFrame({ data: '{}', unprefixed: true })).toBe('{}\n\n')
  })

  test('a written frame is read back unchanged', () => {
    const event = fc.stringMatching(/^[a-z._]{1,12}$/)
    const frame = fc.record(
      {
        event,
        data: fc
          .string({ unit: 'binary' })
          .filter((data) => !/[\r]/.test(data))
          .map((data) => data.toWellFormed()),
      },
      { requiredKeys: ['data'] },
    )
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 6 }), (frames) => {
        expect(split([encode(frames.map(writeFrame).join(''))])).toEqual(frames)
      }),
    )
  })
})

test('a chunk that ends within a frame leaves no more than that frame in memory', () => {
  const memory = (): number => {
    Bun.gc(true)
    return heapStats().extraMemorySize
  }
  const chunk = encode(`${'data: {"a":1}\n\n'.repeat(20_000)}data: {"a":"begin`)
  const before = memory()
  const splitters = Array.from({ length: 50 }, () => new FrameSplitter())
  for (const splitter of splitters) expect(splitter.push(chunk).length).toBe(20_000)
  expect((memory() - before) / splitters.length).toBeLessThan(20_000)
  for (const splitter of splitters) expect(splitter.push(encode(' end"}\n\n'))).toEqual([{ data: '{"a":"begin end"}' }])
})
