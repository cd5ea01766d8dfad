import { oneLine } from '../../parts/visible.ts'

/** A member of what was changed; `was` is absent where nothing was before. */
export type Difference = { name: string; was?: string; is: string }

type Members = Record<string, unknown>

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string =>
  value === undefined || value === null ? 'none' : typeof value === 'string' ? value : JSON.stringify(value)

/** Members within members by their paths, as `plan.tier`. */
const leavesOf = (value: unknown, path = ''): [path: string, value: unknown][] =>
  isMembers(value)
    ? Object.entries(value).flatMap(([name, member]) => leavesOf(member, path === '' ? name : `${path}.${name}`))
    : [[path, value]]

/** Members that differ. Of what is new or gone, those that had a value. */
export function differencesOf(before: unknown, after: unknown): Difference[] {
  const [old, now] = [before, after].map((one) => new Map(isMembers(one) ? leavesOf(one) : []))
  const paths = [...new Set([...old!.keys(), ...now!.keys()])]
  const isChange = isMembers(before) && isMembers(after)
  return paths
    .filter((path) => JSON.stringify(old!.get(path) ?? null) !== JSON.stringify(now!.get(path) ?? null))
    .map((path) => ({
      name: path,
      ...(isChange ? { was: textOf(old!.get(path)) } : {}),
      is: textOf(isMembers(after) ? now!.get(path) : old!.get(path)),
    }))
}

/** All of them in a line: `limit_usd: 5 to 50, name: ci`. The id is beside it. */
export const sentenceOf = (differences: readonly Difference[]): string =>
  differences
    .filter(({ name }) => name !== 'id')
    .map(({ name, was, is }) => oneLine(`${name}: ${was === undefined ? is : `${was} to ${is}`}`, 80))
    .join(', ')

/** The name in a line of the change log. */
export const nameIn = (value: unknown): string | undefined =>
  isMembers(value) && typeof value.name === 'string' ? value.name : undefined
