import type { GenerationEvent } from '../generation/event.ts'
import { cutAtPassages } from './passages.ts'
import type { Reader } from './protocol.ts'
import { unwrap } from './schema/wrapping.ts'
import { endAtStopSequences } from './stop-sequences.ts'
import { type ClientTool, restoreTools } from './tool-names.ts'

/** Changes the events of one response as they come, to undo what the request writer had to change. */
export type Transform = (events: readonly GenerationEvent[]) => GenerationEvent[]

/** A transform as data: the request may be written by another process than the one that reads the response. */
export type Undo =
  | { type: 'restore-tools'; tools: ReadonlyMap<string, ClientTool> }
  | { type: 'stop-sequences'; sequences: readonly string[] }
  | { type: 'unwrap' }
  | { type: 'cut-at-passages' }

function makeTransform(undo: Undo): Transform {
  switch (undo.type) {
    case 'restore-tools':
      return restoreTools(undo.tools)
    case 'stop-sequences':
      return endAtStopSequences(undo.sequences)
    case 'unwrap':
      return unwrap()
    case 'cut-at-passages':
      return cutAtPassages()
  }
}

/** Reports whether a reader has to send citations inside the text that they cite. */
export const cutsAtPassages = (undos: readonly Undo[]): boolean => undos.some(({ type }) => type === 'cut-at-passages')

/** All transforms of one response in their order, or undefined where there are none. */
export function transformOf(undos: readonly Undo[]): Transform | undefined {
  if (undos.length === 0) return undefined
  const transforms = undos.map(makeTransform)
  return (events) => transforms.reduce<GenerationEvent[]>((changed, transform) => transform(changed), [...events])
}

/** A reader whose events pass through the transforms. */
export function transformed(reader: Reader, undos: readonly Undo[]): Reader {
  const transform = transformOf(undos)
  if (transform === undefined) return reader
  return {
    read: (frame) => transform(reader.read(frame)),
    end: () => transform(reader.end()),
    get finishing() {
      return reader.finishing === true
    },
    get failure() {
      return reader.failure
    },
  }
}
