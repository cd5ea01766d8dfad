/**
 * Coding agents as a gateway sees them: bodies of the shape that each sends, streams read as each reads them, and
 * history sent back as each keeps it. The texts are our own.
 */

export type Json = Record<string, any>
export type Server = { url: string; key: string }

/** One frame of a stream as it was sent. */
export type SseFrame = { event?: string; data: string }

/** Frames of a whole stream, without comments. */
export const framesOf = (text: string): SseFrame[] =>
  text
    .split('\n\n')
    .filter((block) => /^data:/m.test(block))
    .map((block) => {
      const event = /^event: (.*)$/m.exec(block)?.[1]
      return {
        ...(event === undefined ? {} : { event }),
        data: [...block.matchAll(/^data: ?(.*)$/gm)].map((line) => line[1]).join('\n'),
      }
    })

export const jsonFrames = (text: string): Json[] =>
  framesOf(text)
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Json)

/** `input`: the arguments; for a free-text tool its text under `input`. `item`: the call as it was received. */
export type Call = { id: string; name: string; input: Json; item: unknown }
export type AgentTurn = { text: string; calls: Call[] }

/** The output of a tool: a text, a PNG in base64, and whether the call failed. */
export type Output = string | { text: string; image?: string; failed?: true }
export const outputOf = (output: Output | undefined): { text: string; image?: string; failed?: true } =>
  typeof output === 'object' ? output : { text: output ?? '' }
export const dataUrl = (image: string): string => `data:image/png;base64,${image}`

/** An agent: its path and headers, its first body, its reader of streams, and the bodies of later turns. */
export type Agent = {
  name: string
  /** The tool that runs commands, and its argument that has the command. */
  tool: string
  argument: string
  path(model: string): string
  headers(key: string): Record<string, string>
  /** The namespace of that tool, if it takes free text. */
  free?: { namespace: string }
  first(model: string, prompt: string, system?: string): Json
  read(stream: string): AgentTurn
  /** The next body: the answer is appended to the history, then the results of its calls. */
  next(body: Json, stream: string, outputs: Output[]): Json
  /** The body of another prompt in the same session. `stream`: the answer before it, if it was complete. */
  prompt(body: Json, prompt: string, stream?: string): Json
  /** The request by which it counts tokens. */
  count?(model: string, body: Json): { path: string; body: Json }
}

export const COMMAND = {
  type: 'object',
  properties: { cmd: { type: 'string' }, command: { type: 'string' } },
  additionalProperties: false,
}
export const DRAFT = { $schema: 'https://json-schema.org/draft/2020-12/schema', ...COMMAND }

export const post = ({ url, key }: Server, agent: Agent, model: string, body: Json): Promise<Response> =>
  fetch(url + agent.path(model), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...agent.headers(key) },
    body: JSON.stringify(body),
  })
