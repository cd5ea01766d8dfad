import { Button, Drawer, Switch } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { type ReactNode, useState } from 'react'
import type { Model, Page, Rate } from '../../api/answers.ts'
import { useAsk } from '../../api/queries.ts'
import { useParam } from '../../app/param.ts'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { FilterInput } from '../../parts/filter-input.tsx'
import { AddButton, PageFrame, Panel } from '../../parts/page.tsx'
import { Pager, useCursors } from '../../parts/pager.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { count, shortCount } from '../../parts/when.ts'
import { ModelForm } from './form.tsx'
import { ModelSheet } from './sheet.tsx'

const PAGE = 100
const TYPING_MS = 200

/** Every model with its price: those that are on, or all that the catalogue knows. */
export function Models() {
  const [text, setText] = useParam('q')
  const [provider, setProvider] = useParam('provider')
  const [all, setAll] = useParam('all')
  const [q] = useDebouncedValue(text, TYPING_MS)
  const narrowed = { q: q.trim(), provider, ...(all === '' ? { on: true } : {}) }
  const [cursors, setCursors] = useCursors(narrowed)
  const [opened, setOpened] = useState<Model>()
  const [form, setForm] = useState<{ id: string | undefined }>()
  const { may } = useSigned()
  const asked = useAsk<Page<Model>>('/models', { ...narrowed, limit: PAGE, cursor: cursors.at(-1) })
  return (
    <PageFrame
      title="Models"
      note="Prices are USD per million tokens, before discounts."
      actions={may.changeInstallation && <AddButton onClick={() => setForm({ id: undefined })}>Add a model</AddButton>}
    >
      <div className="toolbar">
        <FilterInput label="Filter models" placeholder="Filter by name" value={text} onChange={setText} />
        <Switch
          label="Also those of providers that are off"
          checked={all !== ''}
          onChange={({ currentTarget: { checked } }) => setAll(checked ? 'true' : '')}
        />
        {provider !== '' && (
          <Button size="compact-sm" variant="default" onClick={() => setProvider('')}>
            Only {provider}: show all
          </Button>
        )}
      </div>
      <Panel flush>
        <Loaded asked={asked} height={400} lines={10}>
          {({ data, next }) => (
            <>
              <ModelTable models={data} onOpen={setOpened} />
              <Pager next={next} cursors={cursors} onTurn={setCursors} />
            </>
          )}
        </Loaded>
      </Panel>
      <ModelDrawer model={opened} onClose={() => setOpened(undefined)} onChange={(id) => setForm({ id })} />
      {form !== undefined && (
        <ModelForm
          id={form.id}
          onClose={() => {
            setForm(undefined)
            setOpened(undefined)
          }}
        />
      )}
    </PageFrame>
  )
}

function ModelDrawer(props: { model: Model | undefined; onClose: () => void; onChange: (id: string) => void }) {
  const { model, onClose, onChange } = props
  const { may } = useSigned()
  return (
    <Drawer opened={model !== undefined} onClose={onClose} title={model?.id} size={520}>
      {model !== undefined && <ModelSheet model={model} />}
      {model !== undefined && may.changeInstallation && model.set_in === null && (
        <Button variant="default" mt="md" onClick={() => onChange(model.id)}>
          {model.set === null ? 'Set it up here' : 'Change it'}
        </Button>
      )}
    </Drawer>
  )
}

const rateText = (rate: Rate | undefined): ReactNode => rate?.usd ?? <span className="dim">-</span>

/** The price of output; of a model that has none by tokens, that of an image or of a request. */
const outputText = ({ completion, image, request }: NonNullable<Model['prices']>): ReactNode =>
  completion === undefined && image !== undefined
    ? `${image.usd} an image`
    : completion === undefined && request !== undefined
      ? `${request.usd} a request`
      : rateText(completion)

function ModelTable({ models, onOpen }: { models: readonly Model[]; onOpen: (model: Model) => void }) {
  if (models.length === 0) return <Empty icon="search" title="No model has this name" />
  return (
    <TableScroll label="Models">
      <table className="table">
        <thead>
          <tr>
            <th>Model</th>
            <th className="right wide">Context</th>
            <th className="wide wider">Reads</th>
            <th className="wide">Can</th>
            <th className="right">Input</th>
            <th className="right wide">Cached</th>
            <th className="right">Output</th>
            <th className="wide">Providers</th>
          </tr>
        </thead>
        <tbody>
          {models.map((model) => (
            <tr key={model.id} className={model.on ? 'opens' : 'opens gone'} onClick={() => onOpen(model)}>
              <td className="cut">
                <button type="button" className="row-name">
                  {visible(model.id)}
                </button>
              </td>
              <td className="right number wide" title={count(model.context_length)}>
                {model.context_length === null ? <span className="dim">-</span> : shortCount(model.context_length)}
              </td>
              <td className="wide wider dim">{model.input?.join(', ') ?? ''}</td>
              <td className="wide dim">
                {[model.reasoning === true ? 'reasoning' : '', model.tools === true ? 'tools' : '']
                  .filter(Boolean)
                  .join(', ')}
              </td>
              <td className="right number">{rateText(model.prices?.prompt)}</td>
              <td className="right number wide">{rateText(model.prices?.input_cache_read)}</td>
              <td className="right number">{outputText(model.prices ?? {})}</td>
              <td className="wide cut dim">{[...new Set(model.endpoints.map((one) => one.provider))].join(', ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}
