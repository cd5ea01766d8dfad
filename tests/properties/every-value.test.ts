import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { isObject, tryParse } from '../../src/json/parse.ts'
import { recordings, type Recording } from '../recorded/recordings.ts'
import { runs } from '../runs.ts'
import { written } from '../translating.ts'
import { answers, eventsOf } from './answers.ts'
import { TIMEOUT_MS } from './assertions.ts'
import { contextOf, framesOf, NAMES, providerReader, rawRequestOf, readWhole } from './protocol-pairs.ts'
import { requests, scopeOf, TARGETS } from './requests.ts'

/**
 * Every value of a request, response or error in turn is replaced by each of these. Random damage meets a given member
 * too rarely to find a conversion that fails for one kind of value.
 */
const REPLACEMENTS: readonly unknown[] = [
  // Neither of the first two has a text: `String`, template literals and `join` throw.
  [{ toString: 1 }],
  { toString: 1 },
  null,
  7,
  'x',
  { type: [{ toString: 1 }] },
]

/** Generated bodies are the same in each run. */
const SAMPLES = runs(2, 200)
const samplesOf = <T>(arbitrary: fc.Arbitrary<T>): T[] => fc.sample(arbitrary, { numRuns: SAMPLES, seed: 1 })

/** Recorded bodies above this length have the same members as shorter ones. */
const RECORDED_LENGTH = 10_000
const recorded = (name: ConversationName, bodyOf: (one: Recording) => unknown): unknown[] =>
  recordings()
    .filter(({ protocol }) => protocol === name)
    .map(bodyOf)
    .filter((body) => isObject(body) && JSON.stringify(body).length <= RECORDED_LENGTH)
const responseOf = ({ stream, response }: Recording): unknown =>
  stream ? undefined : tryParse(new TextDecoder().decode(response()))

/** True for a member of the value at `path` that is to be replaced. */
type Choice = (path: string, name: string, members: Record<string, unknown>) => boolean

const EVERY: Choice = () => true

/** Recorded bodies repeat each other: a member of the same name, place and neighbours is replaced this often. */
const PER_PLACE = runs(1, Infinity)

function fewOfPlace(): Choice {
  const tried = new Map<string, number>()
  return (path, name, members) => {
    const neighbours = Array.isArray(members) ? '' : Object.keys(members).sort().join()
    const kind = typeof members.type === 'string' ? members.type : members.role
    const place = `${path.replaceAll(/\.\d+/g, '')} ${Array.isArray(members) ? '' : name} ${kind} ${neighbours}`
    const count = tried.get(place) ?? 0
    tried.set(place, count + 1)
    return count < PER_PLACE
  }
}

/** Calls `use` while each member of `root` in turn is replaced. */
function replaceEach(
  root: unknown,
  replacements: readonly unknown[],
  isChosen: Choice,
  use: (path: string, replacement: unknown) => void,
): void {
  const visit = (holder: unknown, path: string): void => {
    if (typeof holder !== 'object' || holder === null) return
    const members = holder as Record<string, unknown>
    for (const name of Object.keys(members)) {
      const original = members[name]
      for (const replacement of isChosen(path, name, members) ? replacements : []) {
        members[name] = replacement
        use(`${path}.${name}`, replacement)
      }
      members[name] = original
      visit(original, `${path}.${name}`)
    }
  }
  visit(root, '')
}

/** Every failure of `use` that is not a refusal: one for each line of the source that throws. */
function failuresOf(
  roots: readonly unknown[],
  use: (root: unknown) => void,
  isRefusal: (error: unknown) => boolean,
  replacements = REPLACEMENTS,
  isChosen = EVERY,
): string[] {
  const failures = new Map<string, string>()
  for (const root of roots)
    replaceEach(root, replacements, isChosen, (path, replacement) => {
      try {
        use(root)
      } catch (error) {
        if (isRefusal(error)) return
        const at = error instanceof Error ? error.stack?.split('\n').find((line) => line.includes('/src/')) : undefined
        failures.set(at?.trim() ?? String(error), `${path} = ${JSON.stringify(replacement)}: ${error as string}`)
      }
    })
  return [...failures].map(([at, text]) => `${text} ${at}`)
}

/** Recorded bodies are many: one replacement is enough for them. */
function expectNoFailure(
  generated: readonly unknown[],
  others: readonly unknown[],
  use: (root: unknown) => void,
  isRefusal: (error: unknown) => boolean,
): void {
  expect(failuresOf(generated, use, isRefusal)).toEqual([])
  expect(failuresOf(others, use, isRefusal, REPLACEMENTS.slice(0, 1), fewOfPlace())).toEqual([])
}

const CONTEXTS = Object.fromEntries(NAMES.map((client) => [client, contextOf(client)])) as Record<
  ConversationName,
  TranslationContext
>
/** Reading its request anew for each replacement took a sixth of the time. */
const freshContextOf = (client: ConversationName): TranslationContext => ({
  ...CONTEXTS[client],
  losses: new LossReport(),
})

const isClientError = (error: unknown): boolean =>
  error instanceof GatewayError && [400, 404].includes(error.status) && error.param !== undefined

const isUpstreamError = (error: unknown): boolean =>
  error instanceof GatewayError && error.code !== 'internal_error' && error.status >= 400

describe.each(NAMES)('%s', (name: ConversationName) => {
  test(
    'any value in a request is written for every provider or refused with a path',
    () => {
      const bodies = samplesOf(requests(scopeOf(name))).map((generated): unknown =>
        JSON.parse(JSON.stringify(written(name, generated, TARGETS[name]).body)),
      )
      const write = (body: unknown): void => {
        const rawRequest = rawRequestOf(body as object)
        protocols[name].serve.references!(rawRequest.body)
        const request = protocols[name].serve.readRequest(rawRequest)
        for (const provider of NAMES)
          if (provider === name)
            protocols[provider].call.forward(
              { ...freshContextOf(name), rawRequest, request },
              TARGETS[name],
              new LossReport(),
            )
          else JSON.stringify(written(provider, request, { ...TARGETS[provider], provider: 'another' }).body)
      }
      const others = recorded(name, ({ request }) => request())
      expectNoFailure(bodies, others, write, isClientError)
    },
    TIMEOUT_MS,
  )

  test(
    'any value in a whole response is read or reported as an upstream error',
    () => {
      const context = contextOf(name)
      const bodies = samplesOf(answers).map((answer): unknown =>
        JSON.parse(
          JSON.stringify(protocols[name].serve.writeResponse(fold(eventsOf(answer, { cuts: [], early: 0 })), context)),
        ),
      )
      const read = (body: unknown): void => {
        protocols[name].passthrough(context).answer(JSON.stringify(body))
        const events = readWhole(name, body as object, context.request)
        for (const client of NAMES) {
          framesOf(client, events, { ...freshContextOf(client), request: context.request })
          if (events.at(-1)?.type === 'finish')
            JSON.stringify(protocols[client].serve.writeResponse(fold(events), freshContextOf(client)))
        }
      }
      const others = recorded(name, (one) => (one.status < 300 ? responseOf(one) : undefined))
      expectNoFailure(bodies, others, read, isUpstreamError)
    },
    TIMEOUT_MS,
  )

  test(
    'any value in a frame of a stream is read or reported as an upstream error',
    () => {
      const context = contextOf(name)
      const streams = samplesOf(answers).map((answer) =>
        framesOf(name, eventsOf(answer, { cuts: [], early: 0 }), context).filter(({ data }) => data.startsWith('{')),
      )
      const read = (frames: readonly Frame[]): void => {
        const passthrough = protocols[name].passthrough(context)
        const reader = providerReader(name, context.request)
        for (const frame of frames) {
          passthrough.frame(frame)
          reader.read(frame)
        }
        reader.end()
      }
      const failures = streams.flatMap((frames) => {
        const values = frames.map(({ data }) => JSON.parse(data) as unknown)
        const readAll = (): void =>
          read(frames.map((frame, index) => ({ ...frame, data: JSON.stringify(values[index]) })))
        return values.flatMap((value) => failuresOf([value], readAll, isUpstreamError))
      })
      expect(failures).toEqual([])
    },
    TIMEOUT_MS,
  )

  test('any value in an error is read', () => {
    const errors = [
      { error: { message: 'no', type: 'a', code: 'b', param: 'c', metadata: { raw: 'd' } } },
      { detail: [{ loc: ['body', 'seed'], msg: 'no', type: 'a' }] },
      { type: 'error', error: { type: 'a', message: 'no' } },
      { error: { code: 429, message: 'no', status: 'A', details: [{ '@type': 'b', retryDelay: '3s' }] } },
      ...recorded(name, (one) => (one.status < 300 ? undefined : responseOf(one))),
    ]
    const read = (body: unknown): void => void protocols[name].call.readError(429, JSON.stringify(body))
    expect(failuresOf(errors, read, () => false)).toEqual([])
  })
})
