import { useLocation, useParams } from 'wouter'
import { useScope } from './scope.tsx'

export type Opened = { id: string | undefined; open(id: string | undefined): void }

/** The thing of a page that its address names, `path/ID`. */
export function useOpened(path: string): Opened {
  const { id } = useParams<{ id?: string }>()
  const [, navigate] = useLocation()
  const { to } = useScope()
  return { id, open: (next) => navigate(to(next === undefined ? path : `${path}/${encodeURIComponent(next)}`)) }
}
