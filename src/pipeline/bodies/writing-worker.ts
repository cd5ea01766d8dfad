import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import type { RedactedText } from '../../config/terms.ts'
import { serveThread } from '../../worker/thread.ts'
import type { BodyPart } from '../../store/store.ts'
import { type RecordedPart, writeRecord } from './record.ts'
import { blankTexts, shortenData } from './shorten.ts'
import { type Arrival, TimedText } from './timed-text.ts'

/** The thread that prepares bodies and writes them: none of that holds up the event loop. */

/** Bytes of a body that came at one time. */
export type Piece = { atMs: number; data: Uint8Array | string }

/** A body as it was received. `cut`: bytes that were left out before. */
export type RawPart = Omit<RecordedPart, 'text' | 'times'> & { pieces: Piece[] }

/** `credentials`: configured ones, which no body may show. */
export type Preparing = { bytes: number; redact: readonly RedactedText[]; credentials: readonly string[] }

/** `file`: the segment's path. */
export type Writing = { id: string; key: Uint8Array; file: string; parts: RawPart[]; preparing: Preparing }

export type Written = { offset: number; length: number; parts: BodyPart[] }

const answers = {
  /** A body that is too long to be kept until its request has ended. */
  shorten(data: Uint8Array, preparing: Preparing): { text: string; cut: number } {
    const { text, cut } = prepare([{ atMs: 0, data }], preparing)
    return { text, cut }
  },

  /** Appends a record to its segment; all of it, or nothing. */
  write({ id, key, file, parts: raw, preparing }: Writing): Written {
    const parts = raw.map(({ pieces, cut, ...part }): RecordedPart => {
      const prepared = prepare(pieces, preparing)
      return { ...part, ...prepared, cut: cut + prepared.cut }
    })
    const record = writeRecord(key, id, parts)
    const descriptor = openSync(file, 'a', 0o600)
    try {
      const offset = fstatSync(descriptor).size
      append(descriptor, record, offset)
      return { offset, length: record.length, parts: parts.map(({ name, bytes, cut }) => ({ name, bytes, cut })) }
    } finally {
      closeSync(descriptor)
    }
  },
}

export type WritingAnswers = typeof answers

function prepare(pieces: readonly Piece[], { bytes, redact, credentials }: Preparing): Prepared {
  const timed = joined(pieces)
  shortenData(timed)
  blankTexts(timed, redact, credentials)
  const cut = timed.cut(bytes)
  return { text: timed.text, times: timed.times, cut }
}

type Prepared = { text: string; times: Arrival[]; cut: number }

/** One text of all pieces. A character that came in two pieces belongs to the second. */
function joined(pieces: readonly Piece[]): TimedText {
  const decoder = new TextDecoder()
  const times: Arrival[] = []
  let text = ''
  for (const { atMs, data } of pieces) {
    if (times.at(-1)?.atMs !== atMs) times.push({ from: text.length, atMs })
    text += typeof data === 'string' ? decoder.decode() + data : decoder.decode(data, { stream: true })
  }
  return new TimedText(text + decoder.decode(), times)
}

/** A record that does not fit on the disk is removed again. */
function append(descriptor: number, record: Buffer, offset: number): void {
  try {
    for (let at = 0; at < record.length; ) at += writeSync(descriptor, record, at)
  } catch (error) {
    ftruncateSync(descriptor, offset)
    throw error
  }
}

serveThread(answers)
