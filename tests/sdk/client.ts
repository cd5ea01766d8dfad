/** One tool a scenario offers. */
export type ToolSpec = { name: string; description: string; schema: Record<string, unknown> }

/** What a session is opened with; each client says it in its own SDK's words. */
export type Options = {
  stream: boolean
  tools?: ToolSpec[]
  /** Call any tool (`required`), or that one. */
  force?: string
  /** JSON Schema of a structured answer. */
  schema?: Record<string, unknown>
  maxTokens?: number
  stop?: string[]
  system?: string
  /** Ask for reasoning in the protocol's own way. */
  reasoning?: boolean
}

export type Call = { id: string; name: string; input: unknown }

/** Arguments as the SDK hands them over: cut text is left as it is, free text of a custom tool is its one field. */
export const inputOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** What the SDK made of the answer. `finish` is the protocol's own word. */
export type Heard = {
  id: string
  model: string
  text: string
  reasoning: string
  refusal: string
  calls: Call[]
  finish: string
  usage: { input: number; output: number; cached: number; reasoning: number }
}

/** A conversation whose history is kept as the SDK's users keep it: what came is sent back as it came. */
export interface Session {
  say(text: string): Promise<Heard>
  answer(results: { call: Call; output: string }[]): Promise<Heard>
}

/**
 * An official SDK pointed at a server. `url` is without version; `model` may be changed between two turns; `failure`
 * reads the SDK's own error.
 */
export type Client = {
  name: string
  protocol: 'chat.completions' | 'responses' | 'messages' | 'generateContent'
  open(at: { url: string; key: string; model: string }, options: Options): Session
  failure(error: unknown): { status: number | undefined; message: string }
}

/** A session over a history: `turn` sends what is there and puts the answer behind it. */
export const session = <Item>(
  history: Item[],
  spoken: (text: string) => Item,
  results: (results: { call: Call; output: string }[]) => Item[],
  turn: () => Promise<Heard>,
): Session => ({
  say: (text) => {
    history.push(spoken(text))
    return turn()
  },
  answer: (given) => {
    history.push(...results(given))
    return turn()
  },
})

export const failureOf = (error: unknown): { status: number | undefined; message: string } => {
  const { status, statusCode, message } = error as { status?: number; statusCode?: number; message?: string }
  return { status: status ?? statusCode, message: String(message) }
}
