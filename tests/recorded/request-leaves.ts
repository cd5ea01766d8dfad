import { type Loss } from '../../src/protocols/translation.ts'
import { withoutWhitespace } from './response-leaves.ts'

/** A scalar of a request with its path. `holder`: the nearest object around it that has a type. */
type Leaf = { path: string; value: string | number | boolean; holder: Record<string, unknown> }

const jsonIn = (text: string): unknown => {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** Includes the leaves of JSON in texts and the two parts of data URLs, which other protocols write as objects. */
function leavesOf(value: unknown, path = '', holder: Record<string, unknown> = {}): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((element, index) => leavesOf(element, `${path}[${index}]`, holder))
  if (typeof value === 'object' && value !== null) {
    const nearest = isPart(value) ? value : holder
    return Object.entries(value).flatMap(([name, inner]) =>
      leavesOf(inner, path === '' ? name : `${path}.${name}`, nearest),
    )
  }
  if (typeof value === 'string') {
    const inner = jsonIn(value)
    if (typeof inner === 'object' && inner !== null) return leavesOf(inner, path, holder)
    const [, mediaType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(value) ?? []
    if (mediaType !== undefined) return [mediaType, data!].map((piece) => ({ path, value: piece, holder }))
    return value.trim() === '' ? [] : [{ path, value, holder }]
  }
  return typeof value === 'number' || typeof value === 'boolean' ? [{ path, value, holder }] : []
}

const isPart = (value: object): value is Record<string, unknown> =>
  'type' in value || 'parts' in value || 'text' in value || 'thought' in value

const CONVERSATION = /^(messages|input|contents|system|instructions|systemInstruction|system_instruction)(\[\])?$/

/** A loss reports a leaf by the path of the leaf, or of an element around it. */
function isReportedBy({ code, path: lost, effect, reason }: Loss, { path }: Leaf): boolean {
  if (code === 'tool_choice_adjusted' && reason === 'only the allowed tools are sent' && path.startsWith('tools['))
    return true
  if (!/\[/.test(path) && !/\[/.test(lost) && namesOf(lost).includes(snakeCase(nameOf(path)))) return true
  if (path === lost) return true
  // Strictness is lost with the schema that it cannot enforce.
  if (code === 'schema_not_enforced' && path === lost.replace(/\.schema$/, '.strict')) return true
  // The signature of a part of which only its provider knows the kind is lost with it.
  if ((code === 'content_native' || code === 'content_as_text') && path === lost.replace(/\.\w+$/, '.thoughtSignature'))
    return true
  if (!path.startsWith(`${lost}.`) && !path.startsWith(`${lost}[`)) return false
  if (effect === 'approximated' && CONVERSATION.test(lost)) return false
  // The loss of a schema lists its keywords.
  return code === 'schema_adjusted' ? reason.includes(nameOf(path)) : true
}

const withoutIndices = (path: string): string => path.replaceAll(/\[\d+\]/g, '[]')
const nameOf = (path: string): string =>
  path
    .replaceAll(/\[\d+\]/g, '')
    .split('.')
    .at(-1)!

/** Base64 in one alphabet, types in lower case. */
const normalized = (text: string): string =>
  withoutWhitespace(text).replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '').toLowerCase()

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names of the same setting. */
const SYNONYMS = [
  ['max_tokens', 'max_completion_tokens', 'max_output_tokens'],
  ['stop', 'stop_sequences'],
  ['logprobs', 'top_logprobs', 'response_logprobs'],
  ['budget_tokens', 'thinking_budget', 'max_tokens'],
]
const namesOf = (path: string): string[] => {
  const name = snakeCase(nameOf(path))
  return [name, ...SYNONYMS.filter((names) => names.includes(name)).flat()]
}

/**
 * The leaves of a request that are neither sent nor reported as lost nor `known`. A text may be part of a longer text
 * that is sent; short words must be equal, numbers and booleans must have the same name too.
 */
export function missingRequestLeaves(
  body: unknown,
  sent: unknown,
  losses: readonly Loss[],
  known: (path: string, value: string) => boolean,
): string[] {
  const sentLeaves = leavesOf(sent)
  const texts = sentLeaves.flatMap(({ value }) => (typeof value === 'string' ? [normalized(value)] : []))
  // A plain-text document may be sent as a file.
  const files = sentLeaves.flatMap(({ value, holder }) =>
    typeof value === 'string' && /text\/plain/.test(JSON.stringify(holder).slice(0, 200))
      ? [normalized(Buffer.from(value, 'base64').toString())]
      : [],
  )
  const whole = new Set(texts),
    all = [...texts, ...files].join('\n')
  const settings = new Set(
    sentLeaves.flatMap(({ path, value }) =>
      typeof value === 'string' ? [] : namesOf(path).map((name) => `${name}=${value}`),
    ),
  )
  const isSent = ({ path, value }: Leaf): boolean => {
    if (typeof value !== 'string') return namesOf(path).some((name) => settings.has(`${name}=${value}`))
    return (
      whole.has(normalized(value)) ||
      (/[\s.]|.{16}/.test(value) && all.includes(normalized(value))) ||
      (/\.title$/.test(path) && all.includes(`${normalized(value)}:`))
    )
  }
  const left = leavesOf(body).filter((leaf) => !isSent(leaf) && !known(withoutIndices(leaf.path), String(leaf.value)))
  const lost = new Set(left.filter((leaf) => losses.some((loss) => isReportedBy(loss, leaf))))
  // A client may send the same reasoning in two fields.
  const lostTexts = new Set(
    [...lost].map(({ value }) => value).filter((value) => typeof value === 'string' && value.length > 40),
  )
  return left
    .filter((leaf) => !lost.has(leaf) && !lostTexts.has(leaf.value))
    .map(({ path, value }) => `${withoutIndices(path)} = ${String(value).slice(0, 60)}`)
}
