import { useCallback, useEffect, useState } from 'react'
import { bodyOf } from './bodies.ts'
import { emptyConversation } from './conversation.ts'
import { readShared, type Shared } from './share.ts'

export const MOST_MODELS = 4
const FIRST_MODEL = 'sandbox/chat'

/** A draft outlives the page's component, but not the browser's tab. */
let kept: Shared = freshDraft()

function freshDraft(): Shared {
  return { models: [FIRST_MODEL], protocol: 'chat.completions', form: emptyConversation(), raw: undefined }
}

export type Draft = Shared & {
  change(change: Partial<Shared>): void
  /** Begins anew. */
  reset(): void
}

/** The request that is being written: of the link, or as it was left. */
export function useDraft(): Draft {
  const [draft, setDraft] = useState(() => {
    const shared = readShared(window.location.hash.slice(1))
    if (shared !== undefined) kept = { ...shared, models: shared.models.length === 0 ? [FIRST_MODEL] : shared.models }
    const model = new URLSearchParams(window.location.search).get('model')
    if (model !== null && shared === undefined) kept = { ...kept, models: [model] }
    return kept
  })
  useEffect(() => {
    if (window.location.hash !== '') window.history.replaceState(window.history.state, '', window.location.pathname)
  }, [])
  const change = useCallback((changes: Partial<Shared>) => {
    kept = { ...kept, ...changes }
    setDraft(kept)
  }, [])
  const reset = useCallback(() => {
    kept = freshDraft()
    setDraft(kept)
  }, [])
  return { ...draft, change, reset }
}

export type Written = { text: string; error: undefined } | { text: string; error: string }

/** The body for a model: the edited one rules. */
export function writtenBody({ protocol, form, raw }: Shared, model: string): Written {
  try {
    if (raw === undefined) return { text: JSON.stringify(bodyOf(protocol, model, form), null, 2), error: undefined }
    JSON.parse(raw)
    return { text: raw, error: undefined }
  } catch (error) {
    return {
      text: raw ?? '',
      error: raw === undefined ? (error as Error).message : `This is not valid JSON: ${(error as Error).message}`,
    }
  }
}
