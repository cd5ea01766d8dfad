import type { QueryClient } from '@tanstack/react-query'
import type { Session } from './answers.ts'

/** Another session, or none: what the former one was shown is forgotten. */
export function changeSession(client: QueryClient, session: Session | null): void {
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== '/session' })
  client.setQueryData(['/session'], session)
}
