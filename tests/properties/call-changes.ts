import type { Part } from '../../src/generation/request.ts'
import { parseExact } from '../../src/json/exact.ts'
import { type Change, parts } from './answer-edits.ts'

/** The differences that protocols make to tool calls. */

export const emptyArguments: Change = {
  name: 'empty arguments are an object',
  make: parts((part) => [
    part.type === 'tool-call' && part.form === 'function' && part.arguments === ''
      ? { ...part, arguments: '{}' }
      : part,
  ]),
}

/** The JSON of an object without white space; undefined for other JSON. */
const objectText = (text: string): string | undefined => {
  try {
    const compact = JSON.stringify(parseExact(text))
    return compact.startsWith('{') ? compact : undefined
  } catch {
    return undefined
  }
}

export const isIncomplete = (part: Part): boolean =>
  part.type === 'tool-call' && part.form === 'function' && objectText(part.arguments) === undefined

/** Arguments are JSON objects in the body, so white space between members is lost. */
export const compactArguments: Change = {
  name: 'compact arguments',
  make: parts((part) => [
    part.type === 'tool-call' && part.form === 'function' ? { ...part, arguments: objectText(part.arguments)! } : part,
  ]),
}
export const argumentsAsObjects: Change[] = [
  {
    name: 'no calls that were cut',
    loss: ['response_content_dropped', 'response.tool_calls.arguments'],
    make: (answer) =>
      answer.finish.reason === 'length'
        ? { ...answer, parts: answer.parts.filter((part) => !isIncomplete(part)) }
        : answer,
  },
  {
    name: 'no incomplete arguments',
    loss: ['response_field_dropped', 'response.tool_calls.arguments'],
    make: parts((part) => [isIncomplete(part) ? ({ ...part, arguments: '{}' } as Part) : part]),
  },
  compactArguments,
]

/** Google has no form for such a call, and a reason for which a response without it ends. */
export const noIncompleteCalls: Change = {
  name: 'no calls with incomplete arguments',
  loss: ['response_content_dropped', 'response.tool_calls.arguments'],
  make: (answer) => {
    const kept = answer.parts.filter((part) => !isIncomplete(part))
    const ends = ['stop', 'stop-sequence', 'tool-calls'].includes(answer.finish.reason)
    return kept.length < answer.parts.length && ends && !kept.some(({ type }) => type === 'tool-call')
      ? { ...answer, parts: kept, finish: { ...answer.finish, reason: 'other' } }
      : { ...answer, parts: kept }
  },
}
