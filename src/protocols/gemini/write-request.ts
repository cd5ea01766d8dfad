import type { RequestSettings } from '../../generation/request.ts'
import { googleTier } from '../../generation/service-class.ts'
import { loseBreakpoints } from '../cache-breakpoints.ts'
import { withImageOutput } from '../image-config.ts'
import type { Target } from '../protocol.ts'
import { ToolNames } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import { loseSettings } from '../unsupported-settings.ts'
import { loseCitations } from '../web-search.ts'
import { writeConfig } from './write-request-config.ts'
import { ContentWriter } from './write-request-contents.ts'
import { GOOGLE_NAMES, writeTools } from './write-request-tools.ts'

export const path = ({ model }: Target, { stream }: Pick<RequestSettings, 'stream'>): string => {
  const name = encodeURIComponent(model).replaceAll('%2F', '/')
  return `/models/${name}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
}

export const headers = (): Record<string, string> => ({})

/** A `GenerateContentRequest`. Model and streaming are in the path. */
export function writeRequest(translation: Translation): Record<string, unknown> {
  const request = withImageOutput(translation.request, translation.target)
  loseCitations(translation)
  const names = new ToolNames(translation, GOOGLE_NAMES)
  const { system, contents } = new ContentWriter(translation, names).write()
  const { tools, toolConfig } = writeTools(request, names, translation)
  const generationConfig = writeConfig(request, translation)
  loseSettings(
    translation,
    ['logitBias', 'user', 'metadata', 'reasoning.summary', 'verbosity', 'cacheKey', 'cacheRetention'],
    'unsupported_field',
  )
  loseBreakpoints(translation, undefined)
  return {
    ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }),
    contents,
    ...(tools.length === 0 ? {} : { tools }),
    ...(toolConfig === undefined ? {} : { toolConfig }),
    ...(Object.keys(generationConfig).length === 0 ? {} : { generationConfig }),
    ...writeServiceTier(request.serviceTier, translation),
  }
}

function writeServiceTier(requested: string | undefined, translation: Translation): { serviceTier?: string } {
  if (requested === undefined) return {}
  const tier = googleTier(requested)
  if (tier !== undefined && translation.target.quirks.refuses?.includes('service_tier') !== true)
    return { serviceTier: tier }
  translation.lose(
    'unsupported_by_provider',
    translation.setting('serviceTier'),
    `the provider has no service tier '${requested}'`,
  )
  return {}
}
