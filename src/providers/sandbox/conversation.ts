import { invalid } from '../../error.ts'
import { canonical } from '../../json/parse.ts'
import type {
  GenerationRequest,
  MediaPart,
  Part,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../generation/request.ts'
import { checkRules } from './rules.ts'
import { readDirectives, scriptOf, type Act, type Script } from './script.ts'
import { verify, type SealKind } from './seals.ts'

/** What a conversation comes to: what to do now, and what there is to talk about. */
export type Conversation = {
  script: Script
  act: Act
  /** Text of the last user turn without directives. */
  said: string
  media: MediaPart[]
  /** Results that wait for an answer; empty when the user spoke last about something else. */
  results: ToolResultPart[]
  /** Whether the model has answered before, outside a running tool loop. */
  begun: boolean
}

/** Reads the conversation, and checks every signature that came back. Throws the 400s of directives and signatures. */
export function readConversation(request: GenerationRequest, body: Record<string, unknown>): Conversation {
  const loop = currentLoop(request.turns)
  const own = loop.user === undefined ? undefined : readDirectives(textOf(loop.user.parts))
  const system = readDirectives(
    [request.system, ...request.turns.filter(isInstruction).map((turn) => turn.parts)].map(textOf).join('\n'),
  )
  const general = scriptOf(system.directives)
  const script =
    own === undefined || own.directives.length === 0 ? general : { ...general, ...scriptOf(own.directives) }
  verifySignatures(request, body)
  const insists = insistences(request)
  if (insists.has('strict') && request.protocol !== 'images') checkRules(request.protocol, body)
  if (insists.has('strict-signatures')) requireSignatures(loop.rounds, script, request, body)
  const lastUser = request.turns.findLast((turn) => turn.role === 'user')
  return {
    script,
    act: script.acts[loop.rounds.length] ?? { steps: [] },
    said: lastUser === undefined ? '' : readDirectives(textOf(lastUser.parts)).rest,
    media: lastUser?.parts.filter(isMedia) ?? [],
    results: loop.results,
    begun: loop.rounds.length > 0 || request.turns.slice(0, -1).some((turn) => turn.role === 'assistant'),
  }
}

/**
 * A tool loop as it stands: the user turn that began it, the assistant's rounds of calls since, the results of the last
 * round.
 */
type Loop = { user: Turn | undefined; rounds: Part[][]; results: ToolResultPart[] }

/**
 * Walks back from the end to the user turn whose directives hold now: past tool results, past rounds of calls, past
 * user turns
 * without directives, and no further than an answer that called nothing, since that ended what came before it.
 */
function currentLoop(turns: readonly Turn[]): Loop {
  const rounds: Part[][] = []
  let user: Turn | undefined
  let results: ToolResultPart[] = []
  for (let i = turns.length - 1; i >= 0; i--) {
    const turn = turns[i]!
    if (turn.role === 'tool' && rounds.length === 0) results = [...turn.parts.filter(isResult), ...results]
    if (turn.role === 'assistant') {
      let first = i
      while (turns[first - 1]?.role === 'assistant') first--
      const round = turns.slice(first, i + 1).flatMap((one) => one.parts)
      // Text at the very end is a beginning the model is to go on from.
      if (!round.some(isCall) && i < turns.length - 1) break
      if (round.some(isCall)) rounds.unshift(round)
      i = first
    }
    if (turn.role !== 'user') continue
    user ??= turn
    if (readDirectives(textOf(turn.parts)).directives.length > 0) return { user: turn, rounds, results }
  }
  return { user, rounds, results }
}

function verifySignatures(request: GenerationRequest, body: unknown): void {
  for (const turn of request.turns) {
    if (turn.role !== 'assistant') continue
    for (const part of turn.parts) {
      if (!('signature' in part) || part.signature === undefined || part.signature.data === GOOGLES_WAIVER) continue
      const sealed = subjectOf(part)
      if (sealed === undefined) continue
      const wrong =
        part.signature.issuer === undefined
          ? verify(part.signature.data, sealed.kind, sealed.subject, request.protocol)
          : 'is wrapped: a provider gets its own signature as it gave it'
      if (wrong !== undefined) throw invalid(pathOf(body, part.signature.data) ?? 'signature', `the signature ${wrong}`)
    }
  }
}

/** Google's documented word for history that another model made. */
const GOOGLES_WAIVER = 'skip_thought_signature_validator'

function subjectOf(part: Part): { kind: SealKind; subject: string | undefined } | undefined {
  switch (part.type) {
    case 'reasoning':
      return { kind: 'reasoning', subject: part.text === '' ? undefined : part.text }
    case 'tool-call':
      return { kind: 'call', subject: callSubject(part.name, part.arguments) }
    case 'text':
      return { kind: 'text', subject: undefined }
    default:
      return undefined
  }
}

/** What the signature on a call is made over. */
export const callSubject = (name: string, input: string): string => `${name}\n${canonical(input)}`

/** What is insisted on holds from wherever in the conversation it was said. */
const insistences = (request: GenerationRequest): ReadonlySet<string> =>
  new Set(
    [request.system, ...request.turns.map((turn) => turn.parts)].flatMap((parts) =>
      readDirectives(textOf(parts)).directives.map(({ name }) => name),
    ),
  )

/** Each round of the running loop that reasoned with a signature must have come back with it. */
function requireSignatures(rounds: readonly Part[][], script: Script, request: GenerationRequest, body: unknown): void {
  for (const [index, round] of rounds.entries()) {
    const signed =
      script.acts[index]?.steps.some((step) => step.kind === 'think' && step.sealed !== 'unsigned') === true
    if (
      !signed ||
      round.some(
        (part) => 'signature' in part && part.signature !== undefined && part.signature.data !== GOOGLES_WAIVER,
      )
    )
      continue
    const call = round.find(isCall)
    throw invalid(
      pathOf(body, call?.id) ?? (request.protocol === 'generateContent' ? 'contents' : 'messages'),
      `the tool call ${call?.name ?? ''} came back without the signature of the reasoning before it`,
    )
  }
}

/** Path of the first string in a body that equals the text, in the form `messages[2].content[0].signature`. */
function pathOf(body: unknown, text: string | undefined, path = ''): string | undefined {
  if (text === undefined || text === '') return undefined
  if (body === text) return path
  if (typeof body !== 'object' || body === null) return undefined
  for (const [key, value] of Object.entries(body)) {
    const found = pathOf(value, text, Array.isArray(body) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`)
    if (found !== undefined) return found
  }
  return undefined
}

/** The texts of parts, one a line. */
export const textOf = (parts: readonly Part[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')

const isCall = (part: Part): part is ToolCallPart => part.type === 'tool-call'
const isResult = (part: Part): part is ToolResultPart => part.type === 'tool-result'
const isMedia = (part: Part): part is MediaPart =>
  part.type === 'image' || part.type === 'audio' || part.type === 'video' || part.type === 'file'
const isInstruction = (turn: Turn): boolean => turn.role === 'system' || turn.role === 'developer'
