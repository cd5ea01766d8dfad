import { useParams } from 'wouter'
import { To } from '../../app/scope.tsx'
import { PageFrame } from '../../parts/page.tsx'
import { RequestHead } from './head.tsx'
import { RequestView, useRequest } from './view.tsx'

/** One request as a page of its own. */
export function Request() {
  const { id = '' } = useParams<{ id: string }>()
  const asked = useRequest(id)
  return (
    <PageFrame
      title="Request"
      actions={
        <To path="/requests" className="link">
          All requests
        </To>
      }
    >
      <section className="panel">
        <RequestHead id={id} request={asked.data} />
        <RequestView asked={asked} />
      </section>
    </PageFrame>
  )
}
