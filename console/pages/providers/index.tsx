import { Button } from '@mantine/core'
import { useState } from 'react'
import type { Provider } from '../../api/answers.ts'
import { useProviders } from '../../api/queries.ts'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { ChangeButton, Origin } from '../../parts/object-form.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'
import { ProviderForm } from './form.tsx'
import { Health } from './health.tsx'
import { RemoveKey, SetKey, TestProvider } from './key-forms.tsx'

const SANDBOX = 'sandbox'
/** A key alone switches it on, without an address. */
const NEEDS_KEY = /^set \w+(?:KEY|TOKEN)(?: or \w+)?$/
/** Providers whose key was set in the console. */
const CONSOLE = 'console'

/** Providers that are on, each with what switched it on; and what switches the others on. */
export function Providers() {
  const asked = useProviders()
  const { may } = useSigned()
  const [form, setForm] = useState<{ id: string | undefined }>()
  return (
    <PageFrame
      title="Providers"
      actions={
        may.changeInstallation && <AddButton onClick={() => setForm({ id: undefined })}>Add a provider</AddButton>
      }
    >
      <Loaded asked={asked} height={320} lines={4}>
        {({ data }) => (
          <>
            <div className="cards">
              {data
                .filter(({ on }) => on)
                .map((provider) => (
                  <ProviderCard key={provider.id} provider={provider} onChange={(id) => setForm({ id })} />
                ))}
            </div>
            {data.every(({ on, id }) => !on || id === SANDBOX) && <HowToAdd />}
            <Panel title="Not switched on" flush>
              <OffTable providers={data.filter(({ on }) => !on)} onChange={(id) => setForm({ id })} />
            </Panel>
          </>
        )}
      </Loaded>
      {form !== undefined && <ProviderForm id={form.id} onClose={() => setForm(undefined)} />}
    </PageFrame>
  )
}

function ProviderCard({ provider, onChange }: { provider: Provider; onChange: (id: string) => void }) {
  const { may } = useSigned()
  const { id, name, found_by, protocols, base_url, models, key, set, set_in } = provider
  return (
    <section className="card" aria-label={name}>
      <h2>{visible(name)}</h2>
      <p className="dim">{base_url ?? 'in this process'}</p>
      <dl className="facts">
        <div>
          <dt>Switched on by</dt>
          <dd>{set === null && set_in === null ? (found_by ?? 'built in') : <Origin set_in={set_in} set={set} />}</dd>
        </div>
        <div>
          <dt>Key</dt>
          <dd>
            {key === null ? (
              <span className="dim">none</span>
            ) : key.last4 === '' ? (
              'set'
            ) : (
              <code className="small">...{key.last4}</code>
            )}
          </dd>
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
      <Health id={id} />
      <div className="card-foot">
        {may.changeInstallation && <TestProvider provider={provider} />}
        {may.changeInstallation && set !== null && set_in === null && (
          <ChangeButton name={name} onClick={() => onChange(id)} />
        )}
        {may.changeInstallation && found_by === CONSOLE && key !== null && <RemoveKey provider={provider} />}
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
        Set the key of a provider below, or in the environment of the server. Providers with an address of their own are
        added here, or are in sluice.yaml.
      </p>
      <Code text="OPENAI_API_KEY=sk-... npm start" name="command" />
    </Panel>
  )
}

function OffTable({ providers, onChange }: { providers: readonly Provider[]; onChange: (id: string) => void }) {
  const { may } = useSigned()
  const [setting, setSetting] = useState<Provider>()
  if (providers.length === 0) return <Empty icon="check" title="Every known provider is on" />
  return (
    <TableScroll label="Providers that are off">
      <table className="table table-fit">
        <thead>
          <tr>
            <th>Provider</th>
            <th className="wide">To switch it on</th>
            <th className="wide">Protocols</th>
            <th className="wide">Address</th>
            {may.changeInstallation && <th className="right">Key</th>}
          </tr>
        </thead>
        <tbody>
          {providers.map((provider) => (
            <OffRow key={provider.id} provider={provider} onSet={setSetting} onChange={onChange} />
          ))}
        </tbody>
      </table>
      {setting !== undefined && <SetKey provider={setting} onClose={() => setSetting(undefined)} />}
    </TableScroll>
  )
}

function OffRow(props: { provider: Provider; onSet: (provider: Provider) => void; onChange: (id: string) => void }) {
  const { provider, onSet, onChange } = props
  const { may } = useSigned()
  const { id, name, switched_on_by, protocols, base_url, set, set_in } = provider
  const howTo =
    set !== null || set_in !== null ? (
      <Origin set_in={set_in} set={set} />
    ) : switched_on_by === null ? (
      <span className="dim">sluice.yaml</span>
    ) : (
      <code className="small">{switched_on_by}</code>
    )
  return (
    <tr>
      <td>
        {name}
        <span className="narrow">{howTo}</span>
      </td>
      <td className="wide">{howTo}</td>
      <td className="wide cut" title={protocols.join(', ')}>
        {protocols.join(', ')}
      </td>
      <td className="wide cut dim" title={base_url ?? undefined}>
        {base_url ?? ''}
      </td>
      {may.changeInstallation && (
        <td className="right">
          {set !== null && set_in === null && <ChangeButton name={name} onClick={() => onChange(id)} />}
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
