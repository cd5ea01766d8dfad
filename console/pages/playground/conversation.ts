/** A file in a turn, as base64. */
export type Media = { name: string; type: string; base64: string }
export type Turn = { role: 'user' | 'assistant'; text: string; media: Media[] }
export type Effort = 'low' | 'medium' | 'high'

/** The content of the form, independent of the protocol. Numbers are texts as typed; empty ones are left out. */
export type Conversation = {
  stream: boolean
  system: string
  turns: Turn[]
  maxTokens: string
  temperature: string
  seed: string
  effort: Effort | ''
  /** JSON: a list of `{name, description, parameters}`. */
  tools: string
  /** JSON Schema of the answer. */
  schema: string
}

export const emptyConversation = (): Conversation => ({
  stream: true,
  system: '',
  turns: [{ role: 'user', text: '', media: [] }],
  maxTokens: '',
  temperature: '',
  seed: '',
  effort: '',
  tools: '',
  schema: '',
})

export type Tool = { name: string; description?: string; parameters?: unknown }

/** The tools of the form. Throws an Error that says what is wrong with them. */
export function toolsOf({ tools }: Conversation): Tool[] {
  if (tools.trim() === '') return []
  const parsed = parsedJson(tools, 'Tools')
  const list = Array.isArray(parsed) ? parsed : [parsed]
  for (const [index, tool] of list.entries())
    if (typeof (tool as Partial<Tool> | null)?.name !== 'string')
      throw new Error(
        `Tools[${index}]: needs a name, as in [{"name": "get_weather", "parameters": {"type": "object"}}]`,
      )
  return list as Tool[]
}

export const schemaOf = ({ schema }: Conversation): unknown =>
  schema.trim() === '' ? undefined : parsedJson(schema, 'Schema')

function parsedJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`${name}: no JSON (${(error as Error).message})`)
  }
}

/** A number that was typed; undefined where nothing was. */
export function numberOf(text: string, name: string): number | undefined {
  if (text.trim() === '') return undefined
  const value = Number(text)
  if (!Number.isFinite(value)) throw new Error(`${name}: must be a number, not ${text}`)
  return value
}
