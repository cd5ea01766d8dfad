import { Select, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import { Icon } from '../../parts/icons.tsx'
import type { Conversation, Effort } from './conversation.ts'

type Props = { form: Conversation; set(changes: Partial<Conversation>): void }

/** Settings that most requests leave out. */
export function Settings({ form, set }: Props) {
  const used = [form.maxTokens, form.temperature, form.seed, form.effort, form.tools, form.schema].filter(
    Boolean,
  ).length
  const [opened, setOpened] = useState(used > 0)
  return (
    <div className="settings">
      <button type="button" className="link turn-link" aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <span className={opened ? undefined : 'turned-left'}>
          <Icon name="down" size={12} />
        </span>{' '}
        Settings{used > 0 ? ` (${used})` : ''}
      </button>
      {opened && (
        <>
          <Numbers form={form} set={set} />
          <Textarea
            size="xs"
            label="Tools, as JSON"
            placeholder='[{"name": "get_weather", "parameters": {"type": "object"}}]'
            classNames={{ input: 'playground-raw' }}
            autosize
            minRows={2}
            maxRows={10}
            spellCheck={false}
            value={form.tools}
            onChange={(event) => set({ tools: event.target.value })}
          />
          <Textarea
            size="xs"
            label="JSON Schema of the answer"
            placeholder='{"type": "object", "properties": {"city": {"type": "string"}}}'
            classNames={{ input: 'playground-raw' }}
            autosize
            minRows={2}
            maxRows={10}
            spellCheck={false}
            value={form.schema}
            onChange={(event) => set({ schema: event.target.value })}
          />
        </>
      )}
    </div>
  )
}

function Numbers({ form, set }: Props) {
  return (
    <div className="settings-grid">
      <TextInput
        size="xs"
        label="Output limit"
        inputMode="numeric"
        value={form.maxTokens}
        onChange={(event) => set({ maxTokens: event.target.value })}
      />
      <TextInput
        size="xs"
        label="Temperature"
        inputMode="decimal"
        value={form.temperature}
        onChange={(event) => set({ temperature: event.target.value })}
      />
      <TextInput
        size="xs"
        label="Seed"
        inputMode="numeric"
        value={form.seed}
        onChange={(event) => set({ seed: event.target.value })}
      />
      <Select
        size="xs"
        label="Reasoning"
        value={form.effort}
        onChange={(value) => set({ effort: (value ?? '') as Effort | '' })}
        data={[{ value: '', label: 'as the model does' }, 'low', 'medium', 'high']}
      />
    </div>
  )
}
