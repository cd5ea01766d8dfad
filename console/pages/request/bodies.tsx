import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { ask, urlOf } from '../../api/ask.ts'
import type { Bodies, Body } from '../../api/answers.ts'
import { useChange } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { FrameReader, type Frame } from '../../parts/frames.ts'
import { download, JsonView } from '../../parts/json-view.tsx'
import { bytesText, count } from '../../parts/when.ts'
import { Ago } from '../../parts/when.tsx'
import { Frames, WireHead } from '../../parts/wire.tsx'
import type { RequestDetail } from './detail.ts'
import { keyPath } from './sentence.ts'

/** The bodies that were sent and received, where they were captured. */
export function BodiesTab({ request }: { request: RequestDetail }) {
  const { may, session } = useSigned()
  const { stored, why_not } = request.bodies
  const next = nextStep(request, session.capture.most !== 'off')
  if (!may.seeBodies)
    return <p className="request-part dim">Bodies are shown to members of the account and to admins.</p>
  return (
    <section className="request-part">
      {stored ? (
        <StoredBodies id={request.id} />
      ) : (
        <>
          <p className="dim">{why_not}</p>
          {next !== undefined && (
            <p className="bodies-next">
              <To path={next.path} className="link">
                {next.text}
              </To>
            </p>
          )}
        </>
      )}
    </section>
  )
}

/** The next step where no bodies are stored. `canCapture`: the file allows it. */
function nextStep({ api, key }: RequestDetail, canCapture: boolean): { path: string; text: string } | undefined {
  if (api === 'predictions') return { path: '/jobs', text: 'See its files under Jobs' }
  if (key === null || !canCapture) return undefined
  return { path: keyPath(key), text: 'Capture the next requests of this key' }
}

/** Each view is in the change log, so that nothing is asked for again while the page is open. */
export const useBodies = (id: string, options: { enabled?: boolean } = {}) =>
  useQuery<Bodies, Error>({
    queryKey: ['/bodies', id],
    queryFn: ({ signal }) => ask('GET', `/requests/${encodeURIComponent(id)}/bodies`, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    meta: { http: urlOf(`/requests/${encodeURIComponent(id)}/bodies`) },
    ...options,
  })

function StoredBodies({ id }: { id: string }) {
  const asked = useBodies(id)
  return (
    <Loaded asked={asked} height={300} lines={4}>
      {({ parts, expires_at }) => (
        <>
          <BodyColumns id={id} parts={parts} />
          <footer className="bodies-foot">
            <span className="dim">
              They are deleted <Ago at={expires_at} />. That you saw them is in the change log.
            </span>
            <RemoveBodies id={id} />
          </footer>
        </>
      )}
    </Loaded>
  )
}

/** The way of a request: four bodies beside or below each other. */
export function BodyColumns({ id, parts }: { id: string; parts: readonly Body[] }) {
  return (
    <div className="bodies-box">
      <div className="bodies">
        {parts.map((body) => (
          <BodyColumn key={body.name} id={id} body={body} />
        ))}
      </div>
    </div>
  )
}

const TITLES: Record<Body['name'], string> = {
  client_request: 'Client sent',
  provider_request: 'We sent',
  provider_answer: 'Provider answered',
  client_answer: 'We answered',
}

function BodyColumn({ id, body }: { id: string; body: Body }) {
  const { name, url, status, headers, bytes, cut, text } = body
  const frames = useMemo(() => framesOf(body), [body])
  const file = `${id}-${name}.txt`
  const target = url === null ? undefined : new URL(url)
  const first = status !== null ? `HTTP ${status}` : `POST ${target?.pathname ?? ''}`.trim()
  const host: [string, string][] = target === undefined ? [] : [['host', target.host]]
  return (
    <section className="body-column" aria-label={TITLES[name]}>
      <header className="body-head">
        <h3>{TITLES[name]}</h3>
        <span className="dim number">
          {bytesText(bytes)}
          {cut > 0 && `, ${bytesText(cut)} left out`}
        </span>
        <button type="button" className="link" onClick={() => download(text, file)}>
          Download
        </button>
      </header>
      <WireHead
        first={first}
        headers={[...host, ...headers.map(({ name: key, value }): [string, string] => [key, value])]}
      />
      {frames.length > 0 ? (
        <Frames frames={frames} />
      ) : text === '' ? (
        <p className="dim">Empty.</p>
      ) : (
        <JsonView text={text} name={file} />
      )}
      {frames.length > 0 && <p className="dim small">{count(frames.length)} frames</p>}
    </section>
  )
}

/** The frames of a stream with the times at which they were complete; none of another body. */
function framesOf({ headers, text, times }: Body): Frame[] {
  const type = headers.find(({ name }) => name === 'content-type')?.value ?? ''
  if (!type.startsWith('text/event-stream')) return []
  const reader = new FrameReader()
  const frames = times.flatMap(({ from, at_ms }, index) => reader.push(text.slice(from, times[index + 1]?.from), at_ms))
  return [...frames, ...reader.end(times.at(-1)?.at_ms ?? 0)]
}

function RemoveBodies({ id }: { id: string }) {
  const [isSure, setSure] = useState(false)
  const remove = useChange<void>('DELETE', () => `/requests/${encodeURIComponent(id)}/bodies`, ['/requests'])
  return (
    <>
      <Button
        size="compact-sm"
        variant="default"
        className="danger"
        loading={remove.isPending}
        onClick={() => (isSure ? remove.mutate() : setSure(true))}
      >
        {isSure ? 'Yes, delete them' : 'Delete'}
      </Button>
      {remove.error !== null && <Fault error={remove.error} />}
    </>
  )
}
