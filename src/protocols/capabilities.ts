import { EFFORTS, type Effort } from '../generation/request.ts'
import type { Capabilities } from './protocol.ts'
import type { SettingName } from './request-paths.ts'
import type { Translation } from './translation.ts'

/**
 * The depth to ask a model for: the nearest that it takes, of two the lesser; undefined where it takes none. Whoever
 * wants some reasoning never gets `none`.
 */
export function nearestEffort(
  wish: Effort,
  { efforts }: Capabilities,
  setting: SettingName,
  translation: Translation,
): Effort | undefined {
  if (efforts === undefined || efforts.includes(wish)) return wish
  const distance = (effort: Effort): number => Math.abs(EFFORTS.indexOf(effort) - EFFORTS.indexOf(wish))
  const [nearest] = efforts
    .filter((effort) => effort !== 'none')
    .toSorted((a, b) => distance(a) - distance(b) || EFFORTS.indexOf(a) - EFFORTS.indexOf(b))
  const path = translation.setting(setting)
  if (nearest === undefined)
    translation.lose('reasoning_not_possible', path, 'the model decides itself how much it reasons')
  else
    translation.lose(
      'effort_adjusted',
      path,
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
  translation: Translation,
): number | undefined {
  if (limit === undefined || limit <= most) return limit
  translation.lose(
    'value_adjusted',
    translation.setting('maxOutputTokens'),
    `the model generates at most ${most} tokens`,
  )
  return most
}
