import { expect, test } from 'bun:test'
import { FrameSplitter } from '../../src/http/frames.ts'

test('a byte order mark counts at the beginning of a stream only, however its bytes are split', () => {
  const bytes = Buffer.from('\uFEFFdata: first\n\n\uFEFFdata: marked\n\ndata: last\n\n')
  for (const text of [bytes, bytes.subarray(3)])
    for (let at = 0; at <= text.length; at++) {
      const splitter = new FrameSplitter()
      const frames = [text.subarray(0, at), text.subarray(at)].flatMap((piece) => splitter.push(piece))
      expect([...frames, ...splitter.end()].map(({ data }) => data)).toEqual(['first', 'last'])
    }
})
