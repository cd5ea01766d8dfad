import type { Provider } from '../../api/answers.ts'
import { useProviders } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'

const SANDBOX = 'sandbox'

/** Providers that are on, each with what switched it on; and what switches the others on. */
export function Providers() {
  const asked = useProviders()
  return (
    <PageFrame title="Providers">
      <Loaded asked={asked} height={320} lines={4}>
        {({ data }) => (
          <>
            <div className="cards">
              {data
                .filter(({ on }) => on)
                .map((provider) => (
                  <ProviderCard key={provider.id} provider={provider} />
                ))}
            </div>
            {data.every(({ on, id }) => !on || id === SANDBOX) && <HowToAdd />}
            <Panel title="Not switched on" flush>
              <OffTable providers={data.filter(({ on }) => !on)} />
            </Panel>
          </>
        )}
      </Loaded>
    </PageFrame>
  )
}

function ProviderCard({ provider }: { provider: Provider }) {
  const { id, name, found_by, protocols, base_url, models, key } = provider
  return (
    <section className="card" aria-label={name}>
      <h2>{visible(name)}</h2>
      <p className="dim">{base_url ?? 'in this process'}</p>
      <dl className="facts">
        <div>
          <dt>Switched on by</dt>
          <dd>{found_by ?? 'built in'}</dd>
        </div>
        <div>
          <dt>Key</dt>
          <dd>{key === null ? <span className="dim">none</span> : <code className="small">...{key.last4}</code>}</dd>
        </div>
        <div>
          <dt>Protocols</dt>
          <dd>{protocols.join(', ')}</dd>
        </div>
        <div>
          <dt>Models</dt>
          <dd>
            <To path={`/models?provider=${encodeURIComponent(id)}`} className="link">
              {count(models)}
            </To>
          </dd>
        </div>
      </dl>
      <To path={`/requests?provider=${encodeURIComponent(id)}`} className="link">
        Requests
      </To>
    </section>
  )
}

function HowToAdd() {
  return (
    <Panel title="Add a provider">
      <p className="dialog-text">
        A key in the environment switches a provider on at the next start. Providers with an address of their own stand
        in sluice.yaml.
      </p>
      <Code text="OPENAI_API_KEY=sk-... npm start" name="command" />
    </Panel>
  )
}

function OffTable({ providers }: { providers: readonly Provider[] }) {
  if (providers.length === 0) return <Empty icon="check" title="Every known provider is on" />
  return (
    <TableScroll label="Providers that are off">
      <table className="table">
        <thead>
          <tr>
            <th>Provider</th>
            <th>Is switched on by</th>
            <th className="wide">Protocols</th>
            <th className="wide">Address</th>
          </tr>
        </thead>
        <tbody>
          {providers.map(({ id, name, switched_on_by, protocols, base_url }) => (
            <tr key={id}>
              <td>{name}</td>
              <td>
                {switched_on_by === null ? (
                  <span className="dim">sluice.yaml</span>
                ) : (
                  <code className="small">{switched_on_by}</code>
                )}
              </td>
              <td className="wide cut">{protocols.join(', ')}</td>
              <td className="wide cut dim">{base_url ?? ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}
