import { CLASS_MEMBERS, type ClassMember, classValue } from '../generation/service-class.ts'
import { TOKENS_MAX } from '../generation/usage.ts'
import { BoundedMap } from '../collections/bounded-map.ts'
import { isObject, tryParse } from '../json/parse.ts'
import { otherModels } from './other-models.ts'
import { requestedPlugins } from './plugins.ts'

/**
 * A class of service that a request asks for, or another model, a tool or searches of the web that it has its provider
 * use. `image`: the model of a tool that draws, '' for the provider's choice. `engine`: the one that searches, where it
 * is named. `param`: the member as the client wrote it.
 */
export type RequestedClass = {
  member: ClassMember | 'model' | 'tool' | 'search' | 'image'
  value: string
  param: string
  engine?: string
}

/**
 * The most output that the members of a body ask for, whichever of them its provider obeys: servers read names without
 * regard to case, and have limits of their own beside those of the protocol.
 */
export type RequestedOutput = {
  /** The largest limit of output tokens; 0: none. */
  tokens: number
  /** A member that removes the limit. */
  unlimited: boolean
  /** The largest number of responses or images. */
  count: number
  /** Characters of a predicted response: those that the model rejects are billed as output. */
  predicted: number
  classes: RequestedClass[]
}

/** The purpose of a member, by its name alone. `inside`: none, but one of its own members may have one. */
type Purpose = 'tokens' | 'words' | 'count' | 'prediction' | 'inside' | 'other' | ClassMember

const CLASS_NAMES = new Map(CLASS_MEMBERS.map((member) => [member.replaceAll('_', ''), member]))

/** Members with content, whose members mean nothing to a provider's limits. */
const CONTENT = new RegExp(
  'metadata|label|format|schema|json|guided|grammar|structured|logitbias|instruction|prompt|message|system|content|' +
    'input$|tool|function',
)

const SIZE = /tok|len|predict|output|completion|generat|think|reason/
const BOUND = /max|num|limit|budget|total|count|min|^n/
/** Names of limits without a word for a bound, such as those of Megatron-LM. */
const LENGTH =
  /^tokenstogenerate$|^(?:new|output|response|completion|gen|generate|generation|target)(?:tokens?|len|length)$/
const GENERAL = /^(?:length|limit)$/
const WORDS = /^(?:max|limit|num|number|n)(?:of)?words$/
/** A word of an uncommon language takes more, and a limit in words is rarely exact. */
const TOKENS_PER_WORD = 4
const NOT_OUTPUT =
  /prompt|input|context|ctx|special|cach|logprob|stop|ids?$|truncat|image|audio|file|penalty|search|effort/

const THINGS =
  '(?:completions?|choices?|candidates?|samples?|outputs?|images?|(?:return)?sequences?|generations?|responses?)'
const COUNT = new RegExp(
  `^(?:n|bestof|batchsize|copies|${THINGS})$|^(?:n|num|number|numberof|max)${THINGS}$|^${THINGS}(?:count|num|number)$`,
)

/** Names whose purposes are remembered; clients can send any number of names. */
const KNOWN_MAX = 1_000
const NAME_LENGTH_MAX = 64
const known = new BoundedMap<string, Purpose>(KNOWN_MAX)

function purposeOf(name: string): Purpose {
  let purpose = known.get(name)
  if (purpose !== undefined) return purpose
  purpose = findPurpose(plain(name))
  if (name.length <= NAME_LENGTH_MAX) known.set(name, purpose)
  return purpose
}

/** A name as the most tolerant server reads it. In upper case first, as some letters have more than one lower case. */
const plain = (name: string): string =>
  name
    .toUpperCase()
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')

function findPurpose(name: string): Purpose {
  const member = CLASS_NAMES.get(name)
  if (member !== undefined) return member
  if (name === 'prediction') return 'prediction'
  if (COUNT.test(name)) return 'count'
  if (LENGTH.test(name) || GENERAL.test(name) || (SIZE.test(name) && BOUND.test(name) && !NOT_OUTPUT.test(name)))
    return 'tokens'
  if (WORDS.test(name)) return 'words'
  return CONTENT.test(name) ? 'other' : 'inside'
}

/** Deeper members are not looked at: no server has its limits there. */
const DEPTH_MAX = 4

/**
 * Reads what the members of a body ask for. `own`: the paths of the limit in the body's protocol, whose value is read
 * and validated elsewhere: `null` is no limit there, while it removes that limit under another spelling of its name.
 */
export function requestedOutput(body: Record<string, unknown>, own: readonly string[] = []): RequestedOutput {
  const requested: RequestedOutput = { tokens: 0, unlimited: false, count: 1, predicted: 0, classes: [] }
  readMembers(body, own, requested, DEPTH_MAX)
  requested.classes.push(...otherModels(body), ...requestedPlugins(body))
  return requested
}

/** The most responses that may be generated for a request whose members are passed on as they are. */
export const mostCandidates = (
  { candidates = 1 }: { candidates?: number },
  forwarded: Pick<RequestedOutput, 'count'> | undefined,
): number => Math.max(candidates, forwarded?.count ?? 1)

function readMembers(
  object: Record<string, unknown>,
  own: readonly string[],
  requested: RequestedOutput,
  depth: number,
): void {
  for (const name in object) {
    const value = object[name]
    if (typeof value === 'boolean') continue
    const purpose = purposeOf(name)
    if (purpose === 'other') continue
    const members = membersIn(value)
    if (members !== undefined) {
      if (purpose === 'prediction') requested.predicted = JSON.stringify(value).length
      else if (depth > 1) readMembers(members, own, requested, depth - 1)
    } else if (purpose === 'tokens') readLimit(name, value, own, requested)
    else if (purpose === 'words') requested.tokens = Math.max(requested.tokens, amountOf(value) * TOKENS_PER_WORD)
    else if (purpose === 'count') requested.count = Math.max(requested.count, amountOf(value))
    else if (typeof value === 'string' && isClass(purpose))
      requested.classes.push({ member: purpose, value: classValue(value), param: name })
  }
}

/** Longer texts and lists are not options. */
const OPTIONS_MAX = 4_096

/** The members of an object, also of one in a list or in the text of a string; undefined for any other value. */
function membersIn(value: unknown): Record<string, unknown> | undefined {
  if (typeof value === 'string') {
    const isJson = value.length <= OPTIONS_MAX && (value.startsWith('{') || value.startsWith('['))
    return isJson ? membersIn(tryParse(value)) : undefined
  }
  if (Array.isArray(value))
    return value.length <= OPTIONS_MAX ? (value as unknown as Record<string, unknown>) : undefined
  return isObject(value) ? value : undefined
}

const isClass = (purpose: Purpose): purpose is ClassMember => (CLASS_MEMBERS as readonly string[]).includes(purpose)

function readLimit(name: string, value: unknown, own: readonly string[], requested: RequestedOutput): void {
  const amount = amountOf(value)
  if (amount > 0) requested.tokens = Math.max(requested.tokens, amount)
  else if (removesLimit(name, value, own)) requested.unlimited = true
}

/** A budget of 0 or -1 is the model's own choice within the limit. Servers read a limit of 0 or -1 as none. */
function removesLimit(name: string, value: unknown, own: readonly string[]): boolean {
  const isOwn = own.some((path) => path === name || path.endsWith(`.${name}`))
  if (value === null) return !isOwn && own.some((path) => plain(path.slice(path.lastIndexOf('.') + 1)) === plain(name))
  if (isOwn && value === 0) return false
  return !plain(name).includes('budget')
}

/** A number, also in a string, as a count; 0 for anything else. */
function amountOf(value: unknown): number {
  const amount = typeof value === 'string' ? Number(value) : value
  return typeof amount === 'number' && amount > 0 ? Math.min(TOKENS_MAX, Math.ceil(amount)) : 0
}
