import type { GenerationRequest, Sampling } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import type { LossCode } from './loss-codes.ts'
import type { SettingName } from './request-paths.ts'
import type { Translation } from './translation.ts'

type Setting = SettingName & (Exclude<keyof GenerationRequest, 'cache'> | keyof Sampling | 'reasoning.summary')

/**
 * Reports settings that the provider cannot be sent. A value without effect is no loss: `false`, a penalty of 0, an
 * empty object, the summary `auto`. Nor is the summary `none`: the response leaves out the text of its reasoning.
 */
export function loseSettings(translation: Translation, settings: readonly Setting[], code: LossCode): void {
  const { request } = translation
  const requested: { [Name in Setting]?: unknown } = {
    ...request,
    ...request.sampling,
    'reasoning.summary': request.reasoning?.summary,
  }
  for (const setting of settings) {
    const value = requested[setting]
    const hasNoEffect =
      value === undefined ||
      value === false ||
      (setting === 'reasoning.summary' && (value === 'auto' || value === 'none')) ||
      (value === 0 && setting.endsWith('Penalty')) ||
      (isObject(value) && Object.keys(value).length === 0)
    if (!hasNoEffect) translation.lose(code, translation.setting(setting))
  }
}
