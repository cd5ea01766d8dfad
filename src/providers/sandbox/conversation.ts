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
import { readDirectives, scriptOf } from './read-script.ts'
import type { Script, ScriptedResponse } from './script.ts'
import { signatureDefect, type SignatureKind } from './signatures.ts'

/** The state of a conversation: the scripted response that is due, and the content to respond to. */
export type Conversation = {
  script: Script
  scripted: ScriptedResponse
  /** Text of the last user turn without directives. */
  userText: string
  media: MediaPart[]
  /** Unanswered tool results; empty if the user spoke last about something else. */
  results: ToolResultPart[]
  /** True if the model has responded before, outside a running tool loop. */
  hasEarlierResponse: boolean
}

/** Reads the conversation and verifies every signature in it. Throws a 400 for invalid directives and signatures. */
export function readConversation(request: GenerationRequest, body: Record<string, unknown>): Conversation {
  const loop = currentLoop(request.turns)
  const script = effectiveScript(request, loop.user)
  verifySignatures(request, body)
  const mentioned = mentionedDirectives(request)
  if (mentioned.has('strict') && request.protocol !== 'images') checkRules(request.protocol, body)
  if (mentioned.has('strict-signatures')) requireSignatures(loop.rounds, script, request, body)
  const lastUser = request.turns.findLast((turn) => turn.role === 'user')
  return {
    script,
    scripted: script.responses[loop.rounds.length] ?? { steps: [] },
    userText: lastUser === undefined ? '' : readDirectives(textOfParts(lastUser.parts)).rest,
    media: lastUser?.parts.filter(isMedia) ?? [],
    results: loop.results,
    hasEarlierResponse: loop.rounds.length > 0 || request.turns.slice(0, -1).some((turn) => turn.role === 'assistant'),
  }
}

/** The directives of the user turn override those of the instructions. */
function effectiveScript(request: GenerationRequest, user: Turn | undefined): Script {
  const instructions = [request.system, ...request.turns.filter(isInstruction).map((turn) => turn.parts)]
  const general = scriptOf(readDirectives(instructions.map(textOfParts).join('\n')).directives)
  const own = user === undefined ? [] : readDirectives(textOfParts(user.parts)).directives
  return own.length === 0 ? general : { ...general, ...scriptOf(own) }
}

/**
 * The running tool loop: the user turn that started it, the rounds of calls since, and the results of the last round.
 */
type ToolLoop = { user: Turn | undefined; rounds: Part[][]; results: ToolResultPart[] }

/**
 * Walks back from the end to the user turn whose directives apply: past tool results, rounds of calls and user turns
 * without directives, but not past a response without calls, because that completed what came before it.
 */
function currentLoop(turns: readonly Turn[]): ToolLoop {
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
      // Assistant text at the very end is a prefix that the model is to continue.
      if (!round.some(isCall) && i < turns.length - 1) break
      if (round.some(isCall)) rounds.unshift(round)
      i = first
    }
    if (turn.role !== 'user') continue
    user ??= turn
    if (readDirectives(textOfParts(turn.parts)).directives.length > 0) return { user: turn, rounds, results }
  }
  return { user, rounds, results }
}

function verifySignatures(request: GenerationRequest, body: unknown): void {
  const parts = request.turns.flatMap((turn) => (turn.role === 'assistant' ? turn.parts : []))
  for (const part of parts) {
    const signature = signatureOf(part)
    const signed = signedContent(part)
    if (signature === undefined || signed === undefined) continue
    const defect =
      signature.issuer === undefined
        ? signatureDefect(signature.data, signed.kind, signed.subject, request.protocol)
        : 'is in a signature envelope: send the signature as the provider issued it'
    if (defect !== undefined) throw invalid(pathOf(body, signature.data) ?? 'signature', `the signature ${defect}`)
  }
}

/** Google's documented placeholder for history that another model produced; it is accepted unverified. */
const SKIP_VALIDATION = 'skip_thought_signature_validator'

const signatureOf = (part: Part) =>
  'signature' in part && part.signature?.data !== SKIP_VALIDATION ? part.signature : undefined

function signedContent(part: Part): { kind: SignatureKind; subject: string | undefined } | undefined {
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

/** The text over which a call is signed. */
export const callSubject = (name: string, input: string): string => `${name}\n${canonical(input)}`

/** Names of all directives in the conversation: the strict ones apply wherever they were written. */
const mentionedDirectives = (request: GenerationRequest): ReadonlySet<string> =>
  new Set(
    [request.system, ...request.turns.map((turn) => turn.parts)].flatMap((parts) =>
      readDirectives(textOfParts(parts)).directives.map(({ name }) => name),
    ),
  )

/** Throws a 400 if a round of the running loop was sent with signed reasoning and came back without the signature. */
function requireSignatures(rounds: readonly Part[][], script: Script, request: GenerationRequest, body: unknown): void {
  for (const [index, round] of rounds.entries()) {
    const steps = script.responses[index]?.steps ?? []
    const wasSigned = steps.some((step) => step.kind === 'think' && step.signing !== 'unsigned')
    if (!wasSigned || round.some((part) => signatureOf(part) !== undefined)) continue
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

/** The texts of parts, separated by line breaks. */
export const textOfParts = (parts: readonly Part[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')

const isCall = (part: Part): part is ToolCallPart => part.type === 'tool-call'
const isResult = (part: Part): part is ToolResultPart => part.type === 'tool-result'
const isMedia = (part: Part): part is MediaPart =>
  part.type === 'image' || part.type === 'audio' || part.type === 'video' || part.type === 'file'
const isInstruction = (turn: Turn): boolean => turn.role === 'system' || turn.role === 'developer'
