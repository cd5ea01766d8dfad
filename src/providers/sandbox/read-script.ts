import { FINISH_REASONS } from '../../generation/event.ts'
import {
  citationStep,
  duration,
  imageStep,
  oneOf,
  providerError,
  streamFault,
  toolCallStep,
  usageCounts,
  wholeNumber,
} from './directive-arguments.ts'
import { findDirectives, type Directive } from './directives.ts'
import type { Script, ScriptedResponse, Step } from './script.ts'

const HTML_PAGE = '<html><body><h1>Sandbox page</h1><p>This is no answer in any protocol.</p></body></html>'

/** Maps rather than objects, because the names looked up come from prompts. */
const table = <T>(entries: Record<string, (argument: string) => T>): ReadonlyMap<string, (argument: string) => T> =>
  new Map(Object.entries(entries))

/** Directives that add content to the current response. docs/sandbox.md shows every directive with an example. */
const STEPS = table<Step>({
  reply: (text) => ({ kind: 'reply', text }),
  length: (argument) => ({ kind: 'length', words: wholeNumber('length', argument, 200_000) }),
  think: (text) => ({ kind: 'think', signing: 'signed', ...(text === '' ? {} : { text }) }),
  'think-unsigned': (text) => ({ kind: 'think', signing: 'unsigned', ...(text === '' ? {} : { text }) }),
  'think-redacted': () => ({ kind: 'think', signing: 'redacted' }),
  call: toolCallStep,
  refuse: (text) => ({ kind: 'refuse', text: text === '' ? 'I cannot help with that.' : text }),
  json: (text) => (text === '' ? { kind: 'json' } : { kind: 'reply', text }),
  cite: citationStep,
  image: imageStep,
  echo: (argument) => ({
    kind: 'echo',
    subject: oneOf('echo', argument === '' ? 'summary' : argument, ['summary', 'body', 'headers']),
  }),
})

/** Directives that change the current response. */
const RESPONSE_SETTINGS = table<Partial<ScriptedResponse>>({
  empty: () => ({ empty: true }),
  finish: (reason) => ({ finish: oneOf('finish', reason, FINISH_REASONS) }),
  stop: (sequence) => ({ stopSequence: sequence === '' ? true : sequence }),
  error: (argument) => ({ error: providerError('error', argument) }),
  html: (argument) => ({
    page: { status: argument === '' ? 200 : wholeNumber('html', argument, 599, 200), text: HTML_PAGE },
  }),
  raw: (text) => ({ page: { status: 200, text } }),
  'error-after': (argument) => ({ fault: streamFault('error', argument) }),
  'cut-after': (argument) => ({ fault: streamFault('cut', argument) }),
  'end-after': (argument) => ({ fault: streamFault('end', argument) }),
  'hang-after': (argument) => ({ fault: streamFault('hang', argument) }),
  hang: () => ({ hang: true }),
  delay: (argument) => ({ delayMs: duration('delay', argument) }),
  usage: (argument) => ({ usage: usageCounts(argument) }),
  'other-form': () => ({ swapFormat: true }),
})

/** Directives that change every response. The strict ones are read from all turns, by conversation.ts. */
const SCRIPT_SETTINGS = table<Partial<Script>>({
  pace: (argument) => ({ paceMs: duration('pace', argument) }),
  chunk: (argument) => ({ wordsPerDelta: wholeNumber('chunk', argument, 10_000, 1) }),
  'no-usage': () => ({ noUsage: true }),
  strict: () => ({}),
  'strict-signatures': () => ({}),
})

/** Starts the next response. */
const NEXT_RESPONSE = 'then'

export const DIRECTIVE_NAMES: ReadonlySet<string> = new Set([
  ...STEPS.keys(),
  ...RESPONSE_SETTINGS.keys(),
  ...SCRIPT_SETTINGS.keys(),
  NEXT_RESPONSE,
])

/** The directives of a text, and the text without them. */
export const readDirectives = (text: string): { directives: Directive[]; rest: string } =>
  text.includes('[[')
    ? findDirectives(text, (name) => DIRECTIVE_NAMES.has(name))
    : { directives: [], rest: text.trim() }

/** Always at least one response. Throws a 400 for a known directive with an invalid argument. */
export function scriptOf(directives: readonly Directive[]): Script {
  const script: Script = { responses: [{ steps: [] }] }
  for (const { name, argument } of directives) {
    const response = script.responses.at(-1)!
    const step = STEPS.get(name)?.(argument)
    if (step !== undefined) response.steps.push(step)
    else if (name === NEXT_RESPONSE) script.responses.push({ steps: [] })
    else {
      Object.assign(response, RESPONSE_SETTINGS.get(name)?.(argument))
      Object.assign(script, SCRIPT_SETTINGS.get(name)?.(argument))
    }
  }
  return script
}
