import { type Loss } from '../../src/protocols/translation.ts'
import { withoutWhitespace } from './response-leaves.ts'

/**
 * What a recorded request says in one place, and where. `holder`: the nearest object on the way there that says its
 * kind.
 */
type Leaf = { path: string; value: string | number | boolean; holder: Record<string, unknown> }

const jsonIn = (text: string): unknown => {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** Arguments that are text here and objects there are leaves in both, and so is what a data URL holds. */
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

/** Parts that no report may pass over in one word for all of them. */
const COMMON_PARTS = new Set([
  'text',
  'input_text',
  'output_text',
  'image',
  'image_url',
  'input_image',
  'document',
  'file',
  'input_file',
  'message',
  'function',
  'tool_use',
  'tool_result',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
])
const isCommon = ({ type, text, thought }: Record<string, unknown>): boolean =>
  typeof type === 'string' ? COMMON_PARTS.has(type) : typeof text === 'string' && thought !== true

const CONVERSATION = /^(messages|input|contents|system|instructions|systemInstruction|system_instruction)(\[\])?$/

/** Whether a loss reports a leaf: under its own path, or that of what holds it. */
function isReportedBy({ code, path: lost, effect, reason }: Loss, { path }: Leaf): boolean {
  if (reason === 'only the allowed tools are sent' && path.startsWith('tools[')) return true
  if (!/\[/.test(path) && !/\[/.test(lost) && namesOf(lost).includes(snakeCase(nameOf(path)))) return true
  if (path === lost) return true
  // The signature of a part of which only its provider knows the kind is lost with it.
  if (code === 'content_native' && path === lost.replace(/\.\w+$/, '.thoughtSignature')) return true
  if (!path.startsWith(`${lost}.`) && !path.startsWith(`${lost}[`)) return false
  if (effect === 'approximated' && CONVERSATION.test(lost)) return false
  // A loss of a schema names its keywords.
  return code === 'schema_adjusted' ? reason.includes(nameOf(path)) : true
}

const withoutIndices = (path: string): string => path.replaceAll(/\[\d+\]/g, '[]')
const nameOf = (path: string): string =>
  path
    .replaceAll(/\[\d+\]/g, '')
    .split('.')
    .at(-1)!

/** Base64 in either alphabet, types in either case. */
const normalized = (text: string): string =>
  withoutWhitespace(text).replaceAll('-', '+').replaceAll('_', '/').replace(/=+$/, '').toLowerCase()

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names of one setting. */
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
 * What a request says that neither stands in what is sent nor is told nor `known`. Texts may stand in longer ones;
 * words, numbers and switches stand by themselves, the last two under their name.
 */
export function missingRequestLeaves(
  body: unknown,
  sent: unknown,
  told: readonly Loss[],
  known: (path: string, value: string) => boolean,
): string[] {
  const there = leavesOf(sent)
  const words = there.flatMap(({ value }) => (typeof value === 'string' ? [normalized(value)] : []))
  // A document in words may be sent as a file.
  const files = there.flatMap(({ value, holder }) =>
    typeof value === 'string' && /text\/plain/.test(JSON.stringify(holder).slice(0, 200))
      ? [normalized(Buffer.from(value, 'base64').toString())]
      : [],
  )
  const whole = new Set(words),
    all = [...words, ...files].join('\n')
  const settings = new Set(
    there.flatMap(({ path, value }) =>
      typeof value === 'string' ? [] : namesOf(path).map((name) => `${name}=${value}`),
    ),
  )
  const isSaid = ({ path, value }: Leaf): boolean => {
    if (typeof value !== 'string') return namesOf(path).some((name) => settings.has(`${name}=${value}`))
    return (
      whole.has(normalized(value)) ||
      (/[\s.]|.{16}/.test(value) && all.includes(normalized(value))) ||
      (/\.title$/.test(path) && all.includes(`${normalized(value)}:`))
    )
  }
  const left = leavesOf(body).filter((leaf) => !isSaid(leaf) && !known(withoutIndices(leaf.path), String(leaf.value)))
  const lost = new Set(left.filter((leaf) => told.some((loss) => isReportedBy(loss, leaf))))
  // A client may say the same thought in two fields.
  const texts = new Set(
    [...lost].map(({ value }) => value).filter((value) => typeof value === 'string' && value.length > 40),
  )
  return left
    .filter((leaf) => !lost.has(leaf) && !texts.has(leaf.value))
    .map(({ path, value }) => `${withoutIndices(path)} = ${String(value).slice(0, 60)}`)
}
