import { NATIVE_PARTS } from './shapes.ts'

/** The members of a response and its objects that are read, or say nothing beyond its bookkeeping. */

export const RESPONSE = new Set([
  ...['candidates', 'promptFeedback', 'usageMetadata', 'modelVersion', 'modelStatus', 'responseId', 'createTime'],
  ...['turnToken', 'sdkHttpResponse'],
])
export const CANDIDATE = new Set([
  ...['content', 'finishReason', 'finishMessage', 'index', 'tokenCount', 'score'],
  ...['safetyRatings', 'avgLogprobs', 'logprobsResult'],
  ...['groundingMetadata', 'urlContextMetadata', 'citationMetadata'],
])
export const PART = new Set([...['text', 'thought', 'thoughtSignature', 'functionCall', 'inlineData'], ...NATIVE_PARTS])
export const CALL = new Set(['id', 'name', 'args', 'partialArgs', 'willContinue'])
