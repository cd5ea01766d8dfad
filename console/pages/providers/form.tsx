import type { Provider } from '../../api/answers.ts'
import { useTagged } from '../../api/queries.ts'
import { type Field, ObjectForm } from '../../parts/object-form.tsx'
import { API_NAMES } from '../../parts/protocols.ts'

const FIELDS: readonly Field[] = [
  { path: 'name', label: 'Display name' },
  { path: 'protocol', label: 'Protocol', choices: API_NAMES },
  {
    path: 'baseUrl',
    label: 'Base URL',
    placeholder: 'https://api.example.com/v1',
    description: 'Everything before /chat/completions, /responses, /messages or /models.',
  },
  {
    path: 'apiKey',
    label: 'Key',
    kind: 'secret',
    description: 'It is stored encrypted and never shown again.',
  },
]

/** Sets up a provider of one's own, or changes one that was set up here. */
export function ProviderForm({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const asked = useTagged<Provider>(`/providers/${encodeURIComponent(id ?? '')}`, { enabled: id !== undefined })
  if (id !== undefined && asked.data === undefined) return null
  const set = asked.data?.data.set ?? null
  const key = asked.data?.data.key ?? null
  const stored = key === null ? undefined : `...${key.last4}, as it is stored`
  return (
    <ObjectForm
      what="provider"
      base="/providers"
      nameLabel="Id, as in the names of its models"
      fields={FIELDS.map((field) => (field.kind === 'secret' ? { ...field, placeholder: stored } : field))}
      object={{ name: id, value: set?.value ?? {}, etag: asked.data?.etag ?? null, isSet: set !== null }}
      onClose={onClose}
    />
  )
}
