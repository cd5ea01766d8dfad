import type { Model } from '../../api/answers.ts'
import { useTagged } from '../../api/queries.ts'
import { type Field, type Members, ObjectForm } from '../../parts/object-form.tsx'

const FIELDS: readonly Field[] = [
  {
    path: 'endpoints',
    label: 'Endpoints, in their order',
    kind: 'lines',
    placeholder: 'openai/gpt-5',
    description: 'One on each line: the provider, a slash, its name of the model.',
  },
  { path: 'contextLength', label: 'Context, tokens', kind: 'number' },
  { path: 'price.prompt', label: 'Price of input, USD per million tokens', kind: 'number' },
  { path: 'price.completion', label: 'Price of output, USD per million tokens', kind: 'number' },
]

type Endpoint = { provider: string; model: string }

const lineOf = ({ provider, model }: Endpoint): string => `${provider}/${model}`

/** Sets up a model, or changes one that was set up here. Further members of endpoints stay with their lines. */
export function ModelForm({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const asked = useTagged<Model>(`/models/${encodeURIComponent(id ?? '')}`, { enabled: id !== undefined })
  if (id !== undefined && asked.data === undefined) return null
  const set = asked.data?.data.set ?? null
  const known = (set?.value.endpoints ?? []) as Endpoint[]
  const value = { ...set?.value, ...(known.length === 0 ? {} : { endpoints: known.map(lineOf).join('\n') }) }
  const toBody = (body: Members): Members => {
    if (typeof body.endpoints !== 'string') return body
    const lines = body.endpoints.split('\n').map((line) => line.trim())
    const endpoints = lines
      .filter((line) => line !== '')
      .map((line) => {
        const [provider = '', ...model] = line.split('/')
        return known.find((one) => lineOf(one) === line) ?? { provider, model: model.join('/') }
      })
    return { ...body, endpoints }
  }
  return (
    <ObjectForm
      what="model"
      base="/models"
      nameLabel="Name, as clients use it"
      fields={FIELDS}
      toBody={toBody}
      object={{ name: id, value, etag: asked.data?.etag ?? null, isSet: set !== null }}
      onClose={onClose}
    />
  )
}
