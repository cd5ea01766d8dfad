import type { GenerationRequest, Sampling } from '../../generation/request.ts'
import { limitOutputTokens, refuseAudioAlone } from '../capabilities.ts'
import { imageConfigOf } from '../image-config.ts'
import { loseStopSequences } from '../stop-sequences.ts'
import type { Translation } from '../translation.ts'
import { writeEnumSchema } from './read-request-schema.ts'
import { responseSchema } from './schema.ts'
import { writeReasoning } from './write-request-reasoning.ts'

const MAX_STOP_SEQUENCES = 5

/** `generationConfig`. */
export function writeConfig(request: GenerationRequest, translation: Translation): Record<string, unknown> {
  const { sampling } = request
  const { capabilities } = translation.target
  refuseAudioAlone(true, translation)
  const thinkingConfig = writeReasoning(request.reasoning, translation)
  const written = {
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    maxOutputTokens: limitOutputTokens(request.maxOutputTokens, capabilities, translation),
    stopSequences: writeStop(sampling.stop, translation),
    frequencyPenalty: writePenalty('frequencyPenalty', sampling.frequencyPenalty, translation),
    presencePenalty: writePenalty('presencePenalty', sampling.presencePenalty, translation),
    seed: writeSeed(sampling.seed, translation),
    responseLogprobs: sampling.logprobs,
    logprobs: writeTopLogprobs(sampling, translation),
    responseModalities: request.outputModalities?.map((modality) => modality.toUpperCase()),
    imageConfig: imageConfigOf(request, translation),
    ...writeFormat(request, translation),
    thinkingConfig,
  }
  return Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined))
}

/** The number of alternatives, which the provider accepts only with log probabilities. */
function writeTopLogprobs({ logprobs, topLogprobs = 0 }: Sampling, translation: Translation): number | undefined {
  if (topLogprobs === 0) return undefined
  if (logprobs === true) return topLogprobs
  translation.lose(
    'unsupported_field',
    translation.setting('topLogprobs'),
    'the provider has alternatives only beside log probabilities, which were not requested',
  )
  return undefined
}

function writeStop(stop: string[] | undefined, translation: Translation): string[] | undefined {
  if (stop === undefined || stop.length <= MAX_STOP_SEQUENCES) return stop?.length === 0 ? undefined : stop
  loseStopSequences(translation, `the provider accepts ${MAX_STOP_SEQUENCES} stop sequences and gets the first ones`)
  return stop.slice(0, MAX_STOP_SEQUENCES)
}

/** Google accepts penalties below 2, which is the largest one elsewhere. */
function writePenalty(
  name: 'frequencyPenalty' | 'presencePenalty',
  penalty: number | undefined,
  translation: Translation,
): number | undefined {
  if (translation.target.capabilities.penalties === false) {
    if ((penalty ?? 0) !== 0) translation.lose('unsupported_by_model', translation.setting(name))
    return undefined
  }
  if (penalty === undefined || penalty < 2) return penalty
  translation.lose('value_adjusted', translation.setting(name), 'the provider accepts values below 2: sent as 1.99')
  return 1.99
}

function writeSeed(seed: number | undefined, translation: Translation): number | undefined {
  if (seed === undefined || (Number.isInteger(seed) && seed === (seed | 0))) return seed
  translation.lose('unsupported_by_provider', translation.setting('seed'), 'the provider accepts only 32-bit seeds')
  return undefined
}

function writeFormat({ outputFormat }: GenerationRequest, translation: Translation): Record<string, unknown> {
  switch (outputFormat?.type) {
    case undefined:
      return {}
    case 'text':
      return { responseMimeType: 'text/plain' }
    case 'json':
      return { responseMimeType: 'application/json' }
    case 'schema':
      return {
        responseMimeType: 'application/json',
        responseJsonSchema: responseSchema(outputFormat, translation),
      }
    case 'enum':
      return { responseMimeType: 'text/x.enum', responseSchema: writeEnumSchema(outputFormat.schema) }
  }
}
