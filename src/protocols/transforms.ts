import type { GenerationEvent } from '../generation/event.ts'
import type { Reader } from './protocol.ts'

/** Changes the events of one response as they come, to undo what the request writer had to change. */
export type Transform = (events: readonly GenerationEvent[]) => GenerationEvent[]

/** Makes the transform of one response. */
export type TransformFactory = () => Transform

/** All transforms of one response in their order, or undefined where there are none. */
export function transformOf(factories: readonly TransformFactory[]): Transform | undefined {
  if (factories.length === 0) return undefined
  const transforms = factories.map((make) => make())
  return (events) => transforms.reduce<GenerationEvent[]>((changed, transform) => transform(changed), [...events])
}

/** A reader whose events pass through the transforms. */
export function transformed(reader: Reader, factories: readonly TransformFactory[]): Reader {
  const transform = transformOf(factories)
  if (transform === undefined) return reader
  return {
    read: (frame) => transform(reader.read(frame)),
    end: () => transform(reader.end()),
    get finishing() {
      return reader.finishing === true
    },
  }
}
