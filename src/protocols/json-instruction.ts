import type { GenerationRequest, Part, TextPart } from '../generation/request.ts'

/**
 * A wish for JSON, said to the model itself. `schema`: what the answer has to fit, where the provider cannot be told.
 */
export const jsonInWords = (schema?: unknown): TextPart => ({
  type: 'text',
  text:
    schema === undefined
      ? 'Answer with a JSON object.'
      : `Answer with a JSON object that fits this JSON schema, and with nothing else:\n${JSON.stringify(schema)}`,
})

/** Whether JSON is spoken of: OpenAI and others refuse a request for JSON in which it is not. */
export function speaksOfJson({ system, turns }: GenerationRequest): boolean {
  const spoken = (parts: readonly Part[]): boolean =>
    parts.some((part) => part.type === 'text' && /json/i.test(part.text))
  return spoken(system) || turns.some(({ parts }) => spoken(parts))
}
