import { Fragment } from 'react'
import type { CaptureOn } from '../api/answers.ts'
import { Icon } from '../parts/icons.tsx'
import { visible } from '../parts/visible.ts'
import { Ago } from '../parts/when.tsx'
import { To } from './scope.tsx'
import { useSigned } from './session.tsx'

const SHOWN = 3

/** Keys and accounts whose bodies are captured now, on every page: no switch is forgotten. */
export function CaptureStrip() {
  const { session } = useSigned()
  const on = session.capture.on.filter(({ until }) => until === null || Date.parse(until) > Date.now())
  if (on.length === 0) return null
  return (
    <p className="strip" role="status">
      <Icon name="alert" size={15} />
      <span className="strip-text">
        Bodies are captured:{' '}
        {on.slice(0, SHOWN).map((one, index) => (
          <Fragment key={one.id}>
            {index > 0 && '; '}
            <Subject one={one} />
          </Fragment>
        ))}
        {on.length > SHOWN && `; and ${on.length - SHOWN} more`}
      </span>
    </p>
  )
}

function Subject({ one: { kind, id, name, mode, until } }: { one: CaptureOn }) {
  return (
    <span>
      {kind === 'installation' ? (
        <To path="/settings" className="link">
          all keys and accounts
        </To>
      ) : (
        <To path={`/${kind}s/${encodeURIComponent(id)}`} className="link">
          {kind} {visible(name ?? id)}
        </To>
      )}
      {mode === 'errors' ? ', failed and lossy requests alone' : ''}
      {until === null ? ', for good' : ', ending '}
      {until !== null && <Ago at={until} />}
    </span>
  )
}
