import type { Api, ConversationName } from '../../src/config/provider-terms.ts'

export type { ConversationName }

/** The protocols of conversations, as people call them. */
export const CONVERSATIONS: Readonly<Record<ConversationName, string>> = {
  'chat.completions': 'Chat completions',
  responses: 'Responses',
  messages: 'Messages',
  generateContent: 'generateContent',
}

const OTHER_APIS: Readonly<Record<Exclude<Api, ConversationName>, true>> = { images: true, predictions: true }

/** The names of all APIs, as requests and providers have them. */
export const API_NAMES: readonly string[] = [...Object.keys(CONVERSATIONS), ...Object.keys(OTHER_APIS)]
