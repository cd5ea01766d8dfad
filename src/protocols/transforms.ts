import type { GenerationEvent } from '../generation/event.ts'
import type { GenerationRequest } from '../generation/request.ts'
import type { Protocol } from './protocol.ts'

/** What becomes of one answer's events on their way from the provider. */
type Pass = (events: readonly GenerationEvent[]) => GenerationEvent[]

/**
 * What a provider could not be asked for is done to its answer; undefined where nothing is to be done for this request.
 */
export type Mend = (request: GenerationRequest) => Pass | undefined

/** A protocol whose answers are what a client of another protocol asked for. */
export function asAsked(protocol: Protocol, ...mends: Mend[]): Protocol {
  const { name, call } = protocol
  const passFor = (request: GenerationRequest | undefined): Pass | undefined => {
    const passes =
      request === undefined || request.protocol === name
        ? []
        : mends.map((mend) => mend(request)).filter((pass) => pass !== undefined)
    return passes.length === 0 ? undefined : (events) => passes.reduce((told, pass) => pass(told), [...events])
  }
  return {
    ...protocol,
    call: {
      ...call,
      reader: (quirks, request) => {
        const reader = call.reader(quirks, request)
        const pass = passFor(request)
        return pass === undefined
          ? reader
          : {
              read: (frame) => pass(reader.read(frame)),
              end: () => pass(reader.end()),
              get finishing() {
                return reader.finishing === true
              },
            }
      },
      readAnswer: (body, quirks, request) => {
        const events = call.readAnswer(body, quirks, request)
        return passFor(request)?.(events) ?? events
      },
    },
  }
}
