/** A tool that the model may call. */
export type ToolSpec = { name: string; description: string; schema: Record<string, unknown> }

/** Options of a session, which each client translates to the parameters of its SDK. */
export type Options = {
  stream: boolean
  tools?: ToolSpec[]
  /** The name of the tool that must be called; `required` for any tool. */
  force?: string
  /** JSON Schema of structured output. */
  schema?: Record<string, unknown>
  maxTokens?: number
  stop?: string[]
  system?: string
  /** Requests reasoning by the protocol's own parameter. */
  reasoning?: boolean
}

export type Call = { id: string; name: string; input: unknown }

/** Arguments as the SDK returns them. Text that is not JSON, such as arguments that were cut, stays text. */
export const inputOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** An answer of the model as the SDK parsed it. `finish`: the protocol's own finish reason. */
export type Answer = {
  id: string
  model: string
  text: string
  reasoning: string
  refusal: string
  calls: Call[]
  finish: string
  usage: { input: number; output: number; cached: number; reasoning: number }
}

/** A conversation whose history sends the SDK's objects back unchanged, as its users do. */
export interface Session {
  send(text: string): Promise<Answer>
  sendResults(results: { call: Call; output: string }[]): Promise<Answer>
}

/**
 * An official SDK with its base URL set to a server. `url` has no version in its path; `model` may be changed between
 * two turns; `failure` reads the SDK's own error.
 */
export type Client = {
  name: string
  protocol: 'chat.completions' | 'responses' | 'messages' | 'generateContent'
  open(at: { url: string; key: string; model: string }, options: Options): Session
  failure(error: unknown): { status: number | undefined; message: string }
}

/** A session with this history. `turn`: sends the history and appends the answer to it. */
export const sessionOf = <Item>(
  history: Item[],
  userItem: (text: string) => Item,
  resultItems: (results: { call: Call; output: string }[]) => Item[],
  turn: () => Promise<Answer>,
): Session => ({
  send: (text) => {
    history.push(userItem(text))
    return turn()
  },
  sendResults: (results) => {
    history.push(...resultItems(results))
    return turn()
  },
})

export const failureOf = (error: unknown): { status: number | undefined; message: string } => {
  const { status, statusCode, message } = error as { status?: number; statusCode?: number; message?: string }
  return { status: status ?? statusCode, message: String(message) }
}
