import { To, useScope } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { copy } from '../../parts/copy.ts'
import { Id } from '../../parts/id.tsx'
import { visible } from '../../parts/visible.ts'
import { When } from '../../parts/when.tsx'
import type { RequestDetail } from './detail.ts'
import { outcomeWords } from './sentence.ts'

/** The playground has no predictions, and no answers of models that are not known. */
const canTry = ({ api, error }: RequestDetail): boolean => api !== 'predictions' && error?.code !== 'model_not_found'

/** Model, outcome, time and id. */
export function RequestHead({ id, request }: { id: string; request: RequestDetail | undefined }) {
  const { to } = useScope()
  const { may } = useSigned()
  const link = `${window.location.origin}/console${to(`/requests/${id}`)}`
  return (
    <header className="request-top">
      {request !== undefined && (
        <h2 className="request-model" title={request.model ?? undefined}>
          {visible(request.model ?? 'no model')}
        </h2>
      )}
      <p className="request-line-two">
        {request !== undefined && <When at={request.at} />}
        {request !== undefined && request.outcome === 'completed' && <span className="tone-good">completed</span>}
        {request !== undefined &&
          outcomeWords(request).map(({ text, tone }) => (
            <span key={text} className={`tone-${tone}`}>
              {text}
            </span>
          ))}
        <Id id={request?.public_id ?? id} />
        {request !== undefined && (
          <button type="button" className="link" onClick={() => void copy(link, 'Link')}>
            Copy link
          </button>
        )}
        {request?.model && may.createKeys && canTry(request) && (
          <To path={`/playground?model=${encodeURIComponent(request.model)}`} className="link">
            Try the model
          </To>
        )}
      </p>
    </header>
  )
}
