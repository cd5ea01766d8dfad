import { type Change, usage } from './answer-edits.ts'

/** Changes of usage that a client's protocol makes. */

export const noCacheLifetimes: Change = {
  name: 'one sum of cache writes',
  loss: ['response_usage_adjusted', 'response.usage'],
  make: usage((one) => ({
    cacheWrite5mTokens: one.cacheWrite5mTokens + one.cacheWrite1hTokens,
    cacheWrite1hTokens: 0,
  })),
}
/** Kinds of tokens without a count of their own are counted with the others. */
export const noCachedAudio: Change = {
  name: 'cached audio counts as cached',
  make: usage((one) => ({ cacheReadTokens: one.cacheReadTokens + one.cacheReadAudioTokens, cacheReadAudioTokens: 0 })),
}
export const noMediaInput: Change = {
  name: 'media count as input',
  make: usage((one) => ({
    inputTokens: one.inputTokens + one.inputAudioTokens + one.inputImageTokens,
    inputAudioTokens: 0,
    inputImageTokens: 0,
  })),
}
export const noVideoOutput: Change = {
  name: 'video counts as output',
  make: usage((one) => ({ outputTokens: one.outputTokens + one.outputVideoTokens, outputVideoTokens: 0 })),
}
export const noMediaOutput: Change = {
  name: 'media count as output',
  make: usage((one) => ({
    outputTokens: one.outputTokens + one.outputAudioTokens + one.outputImageTokens + one.outputVideoTokens,
    outputAudioTokens: 0,
    outputImageTokens: 0,
    outputVideoTokens: 0,
  })),
}

export const cacheWritesAsInput: Change = {
  name: 'cache writes count as input',
  loss: ['response_usage_adjusted', 'response.usage'],
  make: usage((one) => ({
    inputTokens: one.inputTokens + one.cacheWrite5mTokens + one.cacheWrite1hTokens,
    cacheWrite5mTokens: 0,
    cacheWrite1hTokens: 0,
  })),
}
export const noSearches: Change = {
  name: 'no number of searches',
  loss: ['response_field_dropped', 'response.usage'],
  make: usage(() => ({ webSearches: 0 })),
}
