import type { Part, ToolCallPart, Turn } from '../generation/request.ts'
import { sameBeginning } from '../json/same-beginning.ts'
import { memoryOf, rememberLike } from './element-memory.ts'
import type { Extras } from './fields.ts'
import type { Loss, Translation } from './translation.ts'

/**
 * Conversations are read and written in pieces, which begin at boundaries: what is made of the elements before a
 * boundary does not depend on what follows. So of a conversation that comes again, only what follows the last boundary
 * before its first change is read and written.
 */

/** A boundary, and the lengths of the lists that were made of what is before it. */
type Boundary = { at: number; lengths: readonly number[] }

/** Lists that were made of the beginning of an array that comes again. */
class Beginning {
  #basis: unknown
  #elements: readonly unknown[] = []
  #lists: unknown[][] = []
  readonly #boundaries: Boundary[] = []
  /** Written instructions before the conversation. */
  readonly #lead: object[] = []

  /** Appends to `lists` what was made of the same elements. Returns the boundary where they end. */
  continue<T>(elements: readonly T[], { basis, isBoundary, lists }: Making<T>): number {
    const boundaries = this.#boundaries
    const same = basis === this.#basis ? sameBeginning(this.#elements, elements) : 0
    const isStillBoundary = (at: number): boolean => at <= same && (at === elements.length || isBoundary(elements, at))
    while (boundaries.length > 0 && !isStillBoundary(boundaries.at(-1)!.at)) boundaries.pop()
    const last = boundaries.at(-1)
    this.#basis = basis
    this.#elements = elements
    if (this.#lists.length === 0) this.#lists = lists.map(() => [])
    for (const [i, known] of this.#lists.entries()) {
      known.length = last?.lengths[i] ?? 0
      const list = lists[i]!
      for (let at = 0; at < known.length; at++) list.push(known[at])
    }
    return last?.at ?? 0
  }

  /** `from`: the lengths of the lists before anything was made of these elements. */
  keep(at: number, lists: readonly unknown[][], from: readonly number[]): void {
    for (const [i, known] of this.#lists.entries())
      for (let next = from[i]! + known.length; next < lists[i]!.length; next++) known.push(lists[i]![next])
    this.#boundaries.push({ at, lengths: this.#lists.map(({ length }) => length) })
  }

  /** The same object as before for an equal element of the lead. */
  lead(index: number, json: object): object {
    const known = this.#lead[index]
    if (known !== undefined && Bun.deepEquals(known, json, true)) return known
    this.#lead[index] = json
    return json
  }
}

const newBeginning = (): Beginning => new Beginning()

type Making<T> = {
  /** Something else on which the lists depend. */
  basis: unknown
  /** Reports whether a piece may begin at an element, which is not the first. */
  isBoundary(elements: readonly T[], at: number): boolean
  /** The lists that grow with each piece. */
  lists: readonly unknown[][]
  /** Called after what is known has been appended to the lists. */
  resume(): void
  /** Reports whether what it made is the same in each request; else neither that nor what follows is kept. */
  make(from: number, to: number): boolean
}

/** Makes lists of an array. `owner`: whose lists they are. */
function inPieces<T>(elements: readonly T[], owner: object, making: Making<T>): void {
  const { lists, isBoundary } = making
  let known = memoryOf(elements)?.of(owner, newBeginning)
  const lengths = lists.map(({ length }) => length)
  let from = known?.continue(elements, making) ?? 0
  if (from > 0) making.resume()
  // Also without a memory, so that nothing depends on that.
  while (from < elements.length) {
    let to = from + 1
    while (to < elements.length && !isBoundary(elements, to)) to++
    if (!making.make(from, to)) known = undefined
    known?.keep(to, lists, lengths)
    from = to
  }
}

type Reading = {
  /** Whose turns they are: each reader has its own. */
  owner: object
  basis?: unknown
  /** Reports whether this element does not continue the turn before it. */
  isBoundary(elements: readonly unknown[], at: number): boolean
  /** State behind each piece, the last one at the end. */
  states?: unknown[]
  /** Called after turns that are known have been added. */
  resume?(): void
  read(index: number): void
  /** Called at the end of each piece. */
  end?(): void
}

/** A conversation while it is read. Turns of earlier pieces are shared, and copied before they change. */
export class ConversationReading {
  readonly system: Part[] = []
  readonly turns: Turn[] = []
  /** The calls of tools so far. */
  readonly calls = new Calls(this.turns)
  /** Those of what is being read. */
  extras: Extras
  /** Turns before this one are shared. */
  #own = 0
  #isOwn = true

  constructor(extras: Extras) {
    this.extras = extras
  }

  /** Reads the elements of a conversation, each of which must depend on nothing but those before it, and `basis`. */
  read(elements: readonly unknown[], { owner, basis, isBoundary, states = [], resume, read, end }: Reading): void {
    const { extras } = this
    const found: [path: string, value: unknown][] = []
    inPieces(elements, owner, {
      basis,
      isBoundary,
      lists: [this.turns, this.system, found, states],
      resume: () => {
        for (const [path, value] of found) extras[path] = value
        this.calls.resume()
        resume?.()
      },
      make: (from, to) => {
        this.#own = this.turns.length
        this.extras = Object.create(null) as Extras
        for (let index = from; index < to; index++) read(index)
        end?.()
        for (const path in this.extras) {
          extras[path] = this.extras[path]
          found.push([path, extras[path]])
        }
        return this.#isOwn
      },
    })
    this.extras = extras
    rememberLike(elements, this.turns)
  }

  /** The last turn, to be continued, if it has this role. */
  last(role: Turn['role']): Turn | undefined {
    return this.turns.at(-1)?.role === role ? this.changeable(this.turns.length - 1) : undefined
  }

  /** A turn that may be changed, with its parts. */
  changeable(index: number): Turn {
    const turn = this.turns[index]!
    if (index >= this.#own) return turn
    this.#isOwn = false
    return (this.turns[index] = { ...turn, parts: turn.parts.map((part) => ({ ...part })) })
  }
}

type Call = Pick<ToolCallPart, 'name' | 'form'>

/** Calls of tools by their ids. Of equal ids the last counts. */
class Calls {
  readonly #turns: readonly Turn[]
  /** Those that were read after the last `resume`. */
  readonly #read = new Map<string, Call>()
  /** Those of turns before it, as far as they were searched. */
  readonly #earlier = new Map<string, Call>()
  /** Turns before it that were not searched: results follow their calls, so most never are. */
  #unsearched = 0

  constructor(turns: readonly Turn[]) {
    this.#turns = turns
  }

  /** Called when turns from an earlier request have been added. */
  resume(): void {
    this.#read.clear()
    this.#unsearched = this.#turns.length
  }

  set(id: string, call: Call): void {
    this.#read.set(id, call)
  }

  get(id: string): Call | undefined {
    let found = this.#read.get(id) ?? this.#earlier.get(id)
    while (found === undefined && this.#unsearched > 0) {
      const { role, parts } = this.#turns[--this.#unsearched]!
      if (role !== 'assistant') continue
      for (const part of parts.toReversed())
        if (part.type === 'tool-call' && !this.#earlier.has(part.id)) this.#earlier.set(part.id, part)
      found = this.#earlier.get(id)
    }
    return found
  }
}

/**
 * Has the turns of a request be written in pieces: `write` appends to `items`, which begin with the instructions before
 * the conversation. What it appends must depend on nothing but these turns, the target and `basis`.
 */
export function writeTurns(
  { request: { turns }, report, target }: Translation,
  items: unknown[],
  write: (turns: readonly Turn[]) => void,
  basis?: unknown,
): void {
  const losses: Loss[] = []
  inPieces(turns, target, {
    basis,
    isBoundary,
    lists: [items, losses],
    resume: () => {
      for (const { code, path, reason } of losses) report.add(code, path, reason)
    },
    make: (from, to) => {
      const { reported } = report
      const lost = report.losses.length
      write(to - from === turns.length ? turns : turns.slice(from, to))
      for (let i = lost; i < report.losses.length; i++) losses.push(report.losses[i]!)
      // A loss that was reported before, or is one too many, is not listed.
      return report.reported - reported === report.losses.length - lost
    },
  })
}

/**
 * Has the written items of a conversation be remembered. `lead`: the number of those before its turns, for which the
 * same objects are put as before.
 */
export function rememberWritten<T extends object>({ request, target }: Translation, written: T[], lead: number): T[] {
  const known = memoryOf(request.turns)?.of(target, newBeginning)
  if (known === undefined) return written
  for (let i = 0; i < lead; i++) written[i] = known.lead(i, written[i]!) as T
  return rememberLike(request.turns, written, known)
}

/** Reports whether a response begins here: it changes nothing before it, since all protocols write both turns. */
const isBoundary = (turns: readonly Turn[], at: number): boolean => {
  const [before, turn] = [turns[at - 1]!, turns[at]!]
  return turn.role === 'assistant' && before.role !== 'assistant' && isWritten(turn) && isWritten(before)
}

const isWritten = ({ parts }: Turn): boolean =>
  parts.some(({ type, text }: Part & { text?: string }) =>
    type === 'text' ? /\S/.test(text!) : type === 'tool-call' || type === 'tool-result',
  )
