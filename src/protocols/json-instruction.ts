import type { GenerationRequest, Part, TextPart } from '../generation/request.ts'

/** An instruction to respond with JSON, for a provider without such an output format. `schema`: of the response. */
export const jsonInstruction = (schema?: unknown): TextPart => ({
  type: 'text',
  text:
    schema === undefined
      ? 'Answer with a JSON object, and with nothing else: no code block around it.'
      : `Answer with a JSON object that fits this JSON schema, and with nothing else:\n${JSON.stringify(schema)}`,
})

/** True if the conversation mentions JSON: OpenAI and others refuse a request for JSON that does not. */
export function mentionsJson({ system, turns }: GenerationRequest): boolean {
  const mentioned = (parts: readonly Part[]): boolean =>
    parts.some((part) => part.type === 'text' && /json/i.test(part.text))
  return mentioned(system) || turns.some(({ parts }) => mentioned(parts))
}
