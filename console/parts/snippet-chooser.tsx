import { Select } from '@mantine/core'
import { useState } from 'react'
import { useModels } from '../api/queries.ts'
import { snippets } from '../snippets/index.ts'
import { Code } from './snippet.tsx'

const FIRST_MODEL = 'sandbox/chat'
/** In place of a key whose text is not known. */
const KEY_VARIABLE = '$SLUICE_KEY'

const grouped = [
  { group: 'Coding agents', items: snippets.filter(({ kind }) => kind === 'agent').map(({ name }) => name) },
  { group: 'Libraries', items: snippets.filter(({ kind }) => kind === 'library').map(({ name }) => name) },
]

/** Settings of a client, with the address, a key and a model in them. */
export function SnippetChooser({ keyText = KEY_VARIABLE }: { keyText?: string }) {
  const [client, setClient] = useState(snippets[0]!.name)
  const [model, setModel] = useState(FIRST_MODEL)
  const models = useModels()
  const names = [...new Set([FIRST_MODEL, ...(models.data?.data ?? []).map(({ id }) => id)])]
  const chosen = snippets.find(({ name }) => name === client) ?? snippets[0]!
  const parts = chosen.parts({ address: window.location.origin, key: keyText, model })
  return (
    <div className="snippet">
      <div className="snippet-choice">
        <Select
          label="Client"
          data={grouped}
          value={client}
          onChange={(value) => setClient(value ?? client)}
          searchable
        />
        <Select
          label="Model"
          data={names}
          value={model}
          onChange={(value) => setModel(value ?? model)}
          searchable
          limit={50}
        />
      </div>
      {parts.map(({ title, text }) => (
        <div key={title}>
          <p className="snippet-title">{title}</p>
          <Code text={text} name={title} />
        </div>
      ))}
    </div>
  )
}
