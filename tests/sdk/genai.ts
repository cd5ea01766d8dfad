import { GoogleGenAI, type Content, type GenerateContentResponse, type Part } from '@google/genai'
import { sessionOf, type Client, type Answer, type Options } from './client.ts'

/** The options that set a base URL; each results in other paths. */
export const GENAI_MODES = {
  'gemini, version not set': (baseUrl: string) => ({ httpOptions: { baseUrl } }),
  'gemini, v1beta': (baseUrl: string) => ({ httpOptions: { baseUrl, apiVersion: 'v1beta' } }),
  'vertex, version not set': (baseUrl: string) => ({ vertexai: true, httpOptions: { baseUrl } }),
  'vertex, v1': (baseUrl: string) => ({ vertexai: true, httpOptions: { baseUrl, apiVersion: 'v1' } }),
}

/** `@google/genai` in its Gemini mode, or in its Vertex mode with an API key. */
const genaiIn = (mode: 'gemini' | 'vertex'): Client => ({
  name: `genai ${mode}`,
  protocol: 'generateContent',
  // The message of this SDK's error is the whole body.
  failure: (error) => ({ status: (error as { status?: number }).status, message: String((error as Error).message) }),
  open(at, options) {
    const { url, key } = at
    const ai = new GoogleGenAI({
      apiKey: key,
      ...(mode === 'vertex' ? { vertexai: true } : {}),
      httpOptions: { baseUrl: url, apiVersion: mode === 'vertex' ? 'v1' : 'v1beta' },
    })
    const contents: Content[] = []
    return sessionOf<Content>(
      contents,
      (text) => ({ role: 'user', parts: [{ text }] }),
      (results) => [
        {
          role: 'user',
          parts: results.map(({ call, output }) => ({
            functionResponse: { ...(call.id === '' ? {} : { id: call.id }), name: call.name, response: { output } },
          })),
        },
      ],
      async () => {
        const request = { model: at.model, contents, config: configOf(options) }
        const responses = options.stream
          ? await Array.fromAsync(await ai.models.generateContentStream(request))
          : [await ai.models.generateContent(request)]
        const parts = responses.flatMap((response) => response.candidates?.[0]?.content?.parts ?? [])
        contents.push({ role: 'model', parts })
        return answerOf(responses, parts)
      },
    )
  },
})

export const genaiGemini = genaiIn('gemini')
export const genaiVertex = genaiIn('vertex')

const configOf = ({ tools, force, schema, maxTokens, stop, system, reasoning }: Options): object => ({
  ...(system === undefined ? {} : { systemInstruction: system }),
  ...(tools === undefined
    ? {}
    : {
        tools: [
          {
            functionDeclarations: tools.map(({ name, description, schema: parametersJsonSchema }) => ({
              name,
              description,
              parametersJsonSchema,
            })),
          },
        ],
      }),
  ...(force === undefined
    ? {}
    : {
        toolConfig: {
          functionCallingConfig: { mode: 'ANY', ...(force === 'required' ? {} : { allowedFunctionNames: [force] }) },
        },
      }),
  ...(schema === undefined ? {} : { responseMimeType: 'application/json', responseJsonSchema: schema }),
  ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
  ...(stop === undefined ? {} : { stopSequences: stop }),
  ...(reasoning === true ? { thinkingConfig: { includeThoughts: true, thinkingBudget: 2048 } } : {}),
})

function answerOf(responses: GenerateContentResponse[], parts: Part[]): Answer {
  const last = responses.findLast((response) => response.usageMetadata !== undefined)
  const usage = last?.usageMetadata
  const finish = responses.findLast((response) => response.candidates?.[0]?.finishReason !== undefined)?.candidates?.[0]
    ?.finishReason
  return {
    id: responses[0]?.responseId ?? '',
    model: responses[0]?.modelVersion ?? '',
    text: parts.flatMap((part) => (part.thought === true ? [] : [part.text ?? ''])).join(''),
    reasoning: parts.flatMap((part) => (part.thought === true ? [part.text ?? ''] : [])).join(''),
    refusal: '',
    calls: parts.flatMap(({ functionCall: call }) =>
      call === undefined ? [] : [{ id: call.id ?? '', name: call.name ?? '', input: call.args }],
    ),
    finish: finish ?? responses.at(-1)?.promptFeedback?.blockReason ?? '',
    usage: {
      input: usage?.promptTokenCount ?? 0,
      output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0),
      cached: usage?.cachedContentTokenCount ?? 0,
      reasoning: usage?.thoughtsTokenCount ?? 0,
    },
  }
}
