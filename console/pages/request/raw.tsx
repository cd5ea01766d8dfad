import { useMemo } from 'react'
import { JsonView } from '../../parts/json-view.tsx'
import { Code } from '../../parts/snippet.tsx'
import type { RequestDetail } from './detail.ts'

/** The answer of the API as it is, and how to ask for it. */
export function Raw({ request }: { request: RequestDetail }) {
  const text = useMemo(() => JSON.stringify(request), [request])
  return (
    <section className="request-part">
      <Code text={curlOf(request.id)} name="command" />
      <JsonView text={text} name={`request-${request.id}.json`} />
    </section>
  )
}

const curlOf = (id: string): string =>
  `curl ${window.location.origin}/v1/management/requests/${id} -H "authorization: Bearer $SLUICE_MANAGEMENT_KEY"`
