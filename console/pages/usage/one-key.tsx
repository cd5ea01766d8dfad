import { useKeys } from '../../api/queries.ts'
import { Icon } from '../../parts/icons.tsx'
import { oneLine } from '../../parts/visible.ts'

/** The key to which the page is narrowed. */
export function OneKey({ id, onEnd }: { id: string; onEnd(): void }) {
  const keys = useKeys({})
  const name = oneLine(keys.data?.data.find((key) => key.id === id)?.name ?? id, 80)
  return (
    <div className="filters">
      <div className="filters-row">
        <button type="button" className="chip" aria-label={`Remove the filter Key: ${name}`} onClick={onEnd}>
          <span className="chip-text">Key: {name}</span>
          <Icon name="close" size={11} />
        </button>
      </div>
    </div>
  )
}

/** `path` of a list of requests, narrowed to the key, if there is one. */
export const narrowedTo = (path: string, key: string): string =>
  key === '' ? path : `${path}${path.includes('?') ? '&' : '?'}key=${encodeURIComponent(key)}`
