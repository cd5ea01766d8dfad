import { expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { chunkOf, eventsOf } from './building.ts'

test('a citation far into a long text has the range of its text that is nearest to a wrong offset', () => {
  const text = `${'x'.repeat(30_000)}cited${'y'.repeat(100)}cited${'z'.repeat(30_000)}cited`
  for (const [nearest, startIndex] of [
    [30_105, 30_085],
    [30_000, 30_020],
  ] as const) {
    const groundingMetadata = {
      groundingChunks: [{ web: { uri: 'https://a' } }],
      groundingSupports: [
        { segment: { startIndex, endIndex: startIndex + 5, text: 'cited' }, groundingChunkIndices: [0] },
      ],
    }
    const { parts } = fold(eventsOf([chunkOf([{ text }], { finishReason: 'STOP', groundingMetadata })]))
    expect(parts).toMatchObject([{ citations: [{ url: 'https://a', start: nearest, end: nearest + 5 }] }])
  }
})

test('supports that are no objects and sources that are not there are left out, and the others are cited', () => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: 'https://a' } }],
    groundingSupports: [null, 'text', { segment: { startIndex: 0, endIndex: 2 }, groundingChunkIndices: [7, 'x', 0] }],
  }
  const { parts } = fold(eventsOf([chunkOf([{ text: 'Hi' }], { finishReason: 'STOP', groundingMetadata })]))
  expect(parts).toMatchObject([{ text: 'Hi', citations: [{ url: 'https://a', start: 0, end: 2 }] }])
})

test('sources of the search and those of a recitation are cited together', () => {
  const groundingMetadata = { groundingChunks: [{ web: { uri: 'https://a' } }] }
  const citationMetadata = { citations: [{ uri: 'https://b', startIndex: 0, endIndex: 2 }] }
  const end = { finishReason: 'STOP', groundingMetadata, citationMetadata }
  expect(fold(eventsOf([chunkOf([{ text: 'Hi' }], end)])).parts).toMatchObject([
    { text: 'Hi', citations: [{ url: 'https://b', start: 0, end: 2 }, { url: 'https://a' }] },
  ])
})

test('a citation belongs to the text before an empty part with a signature', () => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: 'https://a' } }],
    groundingSupports: [{ segment: { startIndex: 0, endIndex: 2 }, groundingChunkIndices: [0] }],
  }
  const chunks = [
    chunkOf([{ text: 'Hi' }]),
    chunkOf([{ text: '', thoughtSignature: 's' }], { finishReason: 'STOP', groundingMetadata }),
  ]
  expect(fold(eventsOf(chunks)).parts).toMatchObject([
    { text: 'Hi', citations: [{ url: 'https://a', start: 0, end: 2 }] },
    { text: '', signature: { data: 's' } },
  ])
})
