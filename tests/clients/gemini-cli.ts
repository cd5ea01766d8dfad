import { DRAFT, jsonFrames, outputOf, type Agent, type Json } from './agents.ts'

export const geminiCli: Agent = {
  name: 'gemini-cli',
  tool: 'run_shell_command',
  argument: 'command',
  path: (model) => `/v1/publishers/${model.replace('/', '/models/')}:streamGenerateContent?alt=sse`,
  headers: (key) => ({
    'x-goog-api-key': key,
    accept: '*/*',
    'x-goog-api-client': 'google-genai-sdk/1.30.0 gl-node/v22',
  }),
  first: (_model, prompt, system = 'You write code.') => ({
    contents: [{ role: 'user', parts: [{ text: '<context>Today is a day.</context>' }, { text: prompt }] }],
    systemInstruction: { role: 'user', parts: [{ text: system }] },
    tools: [
      {
        functionDeclarations: [
          { name: 'run_shell_command', description: 'Runs a command.', parametersJsonSchema: DRAFT },
        ],
      },
    ],
    generationConfig: { temperature: 1, topP: 0.95, topK: 64, thinkingConfig: { includeThoughts: true } },
  }),
  read: (stream) => {
    const parts = jsonFrames(stream).flatMap(({ candidates }) => (candidates?.[0]?.content?.parts ?? []) as Json[])
    return {
      text: parts
        .filter(({ thought }) => thought !== true)
        .map(({ text }) => text ?? '')
        .join(''),
      calls: parts
        .filter(({ functionCall }) => functionCall !== undefined)
        .map((part) => ({
          id: part.functionCall.id,
          name: part.functionCall.name,
          input: part.functionCall.args,
          item: part,
        })),
    }
  },
  // Reasoning is dropped, the signature of a call is kept, and images follow the results.
  next: (body, stream, outputs) => {
    const { calls } = geminiCli.read(stream)
    const images = outputs.flatMap((output) => outputOf(output).image ?? [])
    const results = calls.map(({ id, name }, i) => ({
      functionResponse: {
        id,
        name,
        response: { [outputOf(outputs[i]).failed === true ? 'error' : 'output']: outputOf(outputs[i]).text },
      },
    }))
    return {
      ...body,
      contents: [
        ...body.contents,
        { role: 'model', parts: keptParts(stream) },
        {
          role: 'user',
          parts: [...results, ...images.map((data) => ({ inlineData: { data, mimeType: 'image/png' } }))],
        },
      ],
    }
  },
  prompt: (body, prompt, stream) => ({
    ...body,
    contents: [
      ...body.contents,
      ...(stream === undefined ? [] : [{ role: 'model', parts: keptParts(stream) }]),
      { role: 'user', parts: [{ text: prompt }] },
    ],
  }),
  // The newest message only.
  count: (model, { contents }) => ({
    path: geminiCli.path(model).replace('streamGenerateContent?alt=sse', 'countTokens'),
    body: { contents: contents.slice(-1) },
  }),
}

/** The parts of an answer as gemini-cli keeps them: its texts joined to one, and its calls. */
function keptParts(stream: string): Json[] {
  const { text, calls } = geminiCli.read(stream)
  return [...(text === '' ? [] : [{ text }]), ...calls.map(({ item }) => item as Json)]
}
