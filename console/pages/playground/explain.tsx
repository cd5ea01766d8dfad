import { useQuery } from '@tanstack/react-query'
import { ask } from '../../api/ask.ts'
import { Loaded } from '../../parts/fault.tsx'
import { JsonView } from '../../parts/json-view.tsx'
import { headUsd } from '../../parts/money.ts'
import { visible } from '../../parts/visible.ts'
import { type Draft, writtenBody } from './draft.ts'

type EndpointPlan = {
  provider: string
  protocol: string
  url?: string
  body?: unknown
  translation?: readonly { path: string; effect: string; reason: string }[]
  refused?: string
}

/** `POST /explain`. `off`: providers that would serve the model, and what switches them on. */
type Explanation = {
  model: string
  protocol: string
  endpoints: EndpointPlan[]
  off: { provider: string; remedy: string }[]
  hold_usd: string | null
  as_named: string[]
}

/** The requests that each endpoint of the first model would get, without sending them. */
export function Explain({ draft }: { draft: Draft }) {
  const { models, protocol, form } = draft
  const model = models[0] ?? ''
  const written = writtenBody(draft, model)
  const asked = useQuery<Explanation, Error>({
    queryKey: ['/explain', protocol, model, form.stream, written.text],
    queryFn: ({ signal }) =>
      ask('POST', '/explain', {
        body: { protocol, model, stream: form.stream, body: JSON.parse(written.text) as unknown },
        signal,
      }),
    enabled: written.error === undefined,
    retry: false,
  })
  if (written.error !== undefined) return <p className="failed">{written.error}</p>
  return (
    <Loaded asked={asked} height={240} lines={3}>
      {({ endpoints, off, hold_usd, as_named }) => (
        <div className="explain">
          <p className="dim">
            {hold_usd === null ? 'The model has no price.' : `It holds ${headUsd(hold_usd)} USD at most.`}
            {as_named.length > 0 && ` Not inserted here: ${as_named.map(visible).join(', ')}.`}
          </p>
          {endpoints.length === 0 && <p>No endpoint serves {visible(model)}.</p>}
          {endpoints.map((endpoint, index) => (
            <Endpoint key={index} endpoint={endpoint} />
          ))}
          {off.map(({ provider, remedy }) => (
            <p key={provider} className="dim">
              {visible(provider)} is off: {visible(remedy)}
            </p>
          ))}
        </div>
      )}
    </Loaded>
  )
}

function Endpoint({ endpoint }: { endpoint: EndpointPlan }) {
  const { provider, protocol, url, body, translation = [], refused } = endpoint
  return (
    <section>
      <h3>
        {visible(provider)} <span className="dim">{protocol}</span>
      </h3>
      {refused !== undefined && <p className="refused">{visible(refused)}</p>}
      {url !== undefined && (
        <p className="playground-path">
          <code>POST {visible(url)}</code>
        </p>
      )}
      {translation.map(({ path, effect, reason }) => (
        <p key={path} className="lossy">
          <code>{visible(path)}</code> {effect}: {visible(reason)}
        </p>
      ))}
      {body !== undefined && <JsonView text={JSON.stringify(body)} name={`Body for ${provider}`} />}
    </section>
  )
}
