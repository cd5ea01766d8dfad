import { EFFORTS, type Effort } from '../generation/request.ts'
import type { Capabilities, Loss } from './protocol.ts'

/**
 * The depth to ask a model for: the nearest that it takes, of two the lesser; undefined where it takes none. Whoever
 * wants some reasoning never gets `none`.
 */
export function nearestEffort(
  wish: Effort,
  { efforts }: Capabilities,
  field: Loss['field'],
  losses: Loss[],
): Effort | undefined {
  if (efforts === undefined || efforts.includes(wish)) return wish
  const distance = (effort: Effort): number => Math.abs(EFFORTS.indexOf(effort) - EFFORTS.indexOf(wish))
  const [nearest] = efforts
    .filter((effort) => effort !== 'none')
    .toSorted((a, b) => distance(a) - distance(b) || EFFORTS.indexOf(a) - EFFORTS.indexOf(b))
  const lose = (what: Loss['what'], why: string): void => void losses.push({ field, what, why })
  if (nearest === undefined) lose('left out', 'the model decides itself how deep it reasons')
  else
    lose(
      'approximated',
      wish === 'none'
        ? `the model always reasons: sent as '${nearest}'`
        : `the model takes ${efforts.map((effort) => `'${effort}'`).join(', ')}: sent as '${nearest}'`,
    )
  return nearest
}

/** Whether the model takes temperature and the like. `reasons`: it was not told to do without reasoning. */
export const samples = ({ sampling }: Capabilities, reasons: boolean): boolean =>
  sampling !== false && !(sampling === 'idle' && reasons)

/**
 * The limit of output tokens, within the model's own: providers refuse more, and asking for more than there is means
 * all of it.
 */
export function withinLimit(
  limit: number | undefined,
  { maxOutputTokens: most = Infinity }: Capabilities,
  losses: Loss[],
): number | undefined {
  if (limit === undefined || limit <= most) return limit
  losses.push({ field: 'maxOutputTokens', what: 'approximated', why: `the model generates at most ${most} tokens` })
  return most
}
