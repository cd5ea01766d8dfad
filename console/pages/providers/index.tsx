import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Provider } from '../../api/answers.ts'
import { useProviders } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'
import { RemoveKey, SetKey, TestProvider } from './key-forms.tsx'

const SANDBOX = 'sandbox'
/** A key alone switches it on, without an address. */
const NEEDS_KEY = /^set \w+(?:KEY|TOKEN)(?: or \w+)?$/
/** Providers whose key was set in the console. */
const CONSOLE = 'console'

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
  const { may } = useSigned()
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
      <div className="card-foot">
        {may.changeInstallation && <TestProvider provider={provider} />}
        {may.changeInstallation && found_by === CONSOLE && <RemoveKey provider={provider} />}
        <To path={`/requests?provider=${encodeURIComponent(id)}`} className="link">
          Requests
        </To>
      </div>
    </section>
  )
}

function HowToAdd() {
  return (
    <Panel title="Add a provider">
      <p className="dialog-text">
        Set the key of a provider below, or in the environment of the server. Providers with an address of their own
        stand in sluice.yaml.
      </p>
      <Code text="OPENAI_API_KEY=sk-... npm start" name="command" />
    </Panel>
  )
}

function OffTable({ providers }: { providers: readonly Provider[] }) {
  const { may } = useSigned()
  const [setting, setSetting] = useState<Provider>()
  if (providers.length === 0) return <Empty icon="check" title="Every known provider is on" />
  return (
    <TableScroll label="Providers that are off">
      <table className="table">
        <thead>
          <tr>
            <th>Provider</th>
            <th>To switch it on</th>
            <th className="wide">Protocols</th>
            <th className="wide">Address</th>
            {may.changeInstallation && <th className="right">Key</th>}
          </tr>
        </thead>
        <tbody>
          {providers.map((provider) => (
            <OffRow key={provider.id} provider={provider} onSet={setSetting} />
          ))}
        </tbody>
      </table>
      {setting !== undefined && <SetKey provider={setting} onClose={() => setSetting(undefined)} />}
    </TableScroll>
  )
}

function OffRow({ provider, onSet }: { provider: Provider; onSet: (provider: Provider) => void }) {
  const { may } = useSigned()
  const { name, switched_on_by, protocols, base_url } = provider
  return (
    <tr>
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
      {may.changeInstallation && (
        <td className="right">
          {NEEDS_KEY.test(switched_on_by ?? '') && (
            <Button
              size="compact-sm"
              variant="default"
              aria-label={`Set key of ${name}`}
              onClick={() => onSet(provider)}
            >
              Set key
            </Button>
          )}
        </td>
      )}
    </tr>
  )
}
