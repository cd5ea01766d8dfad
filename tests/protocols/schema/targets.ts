import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { parametersSchema, responseSchema as geminiResponseSchema } from '../../../src/protocols/gemini/schema.ts'
import { inputSchema, outputSchema } from '../../../src/protocols/messages/schema.ts'
import { functionSchema, responseSchema } from '../../../src/protocols/schema/openai.ts'
import type { Loss, Translation } from '../../../src/protocols/translation.ts'
import { translationOf } from '../../translating.ts'

/** The schema writers of all providers, called as for one request. */

export const toolWith = (parameters: unknown, strict?: boolean) => ({
  type: 'function' as const,
  name: 'f',
  parameters,
  path: 'tools[0]',
  ...(strict === undefined ? {} : { strict }),
})

const REQUEST: GenerationRequest = {
  model: 'm',
  system: [],
  turns: [],
  tools: [],
  sampling: {},
  stream: false,
  protocol: 'responses',
  extras: {},
}
const BODY = { tools: [{ parameters: {}, strict: true }], text: { format: { schema: {} } } }
export const newTranslation = (): Translation =>
  translationOf(REQUEST, { provider: 'p', model: 'm', quirks: {}, capabilities: {} }, BODY)

const reported = <T>(write: (translation: Translation) => T): { schema: T; losses: Loss[] } => {
  const one = newTranslation()
  return { schema: write(one), losses: one.report.losses }
}
export const openaiTool = (schema: unknown, one?: Translation) =>
  reported((own) => own.schemaCache.write(functionSchema, toolWith(schema), one ?? own).parameters)
export const anthropicTool = (schema: unknown) =>
  reported((one) => one.schemaCache.write(inputSchema, toolWith(schema), one))
export const anthropicResponse = (schema: unknown) => reported((one) => outputSchema({ type: 'schema', schema }, one))
export const geminiTool = (schema: unknown, one?: Translation) =>
  reported((own) => own.schemaCache.write(parametersSchema, toolWith(schema), one ?? own))
export const geminiResponse = (schema: unknown) =>
  reported((one) => geminiResponseSchema({ type: 'schema', schema }, one))
export const openaiResponse = (schema: unknown) =>
  reported((one) => responseSchema({ type: 'schema', schema }, one).schema)

/** Writers of tool and response schemas for each provider, with the losses that they report. */
export const TARGETS = {
  openaiTool,
  openaiResponse,
  anthropicTool,
  anthropicResponse,
  geminiTool,
  geminiResponse,
}

/** `effect: reason` of each loss. */
export const reasonsOf = ({ losses }: { losses: Loss[] }): string =>
  losses.map(({ effect, reason }) => `${effect}: ${reason}`).join('\n')

/** The message of a refusal, beginning with the path within the schema. */
export const refusalOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'invalid_request')
      return error.message.replace(/^(tools\[0\]\.parameters|text\.format\.schema)\.?/, '')
    throw error
  }
  return 'no refusal'
}
