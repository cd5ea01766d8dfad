import { Autocomplete, Button, Menu, Select, Switch, Tabs, Textarea } from '@mantine/core'
import { useModels } from '../../api/queries.ts'
import { Icon } from '../../parts/icons.tsx'
import { type ConversationName, CONVERSATIONS } from '../../parts/protocols.ts'
import { unsupportedSettings } from './bodies.ts'
import type { Conversation } from './conversation.ts'
import { DIRECTIVES } from './directives.ts'
import { MOST_MODELS, writtenBody, type Draft } from './draft.ts'
import { Settings } from './settings.tsx'
import { Turns } from './turns.tsx'

type Props = { draft: Draft; isRunning: boolean; onSend(): void; onStop(): void }

/** The request: as a form, or as the JSON that is sent. */
export function Form({ draft, isRunning, onSend, onStop }: Props) {
  const { models, protocol, form, raw, change } = draft
  const set = (changes: Partial<Conversation>): void => change({ form: { ...form, ...changes } })
  const { error } = writtenBody(draft, models[0] ?? '')
  const lost = raw === undefined ? unsupportedSettings(protocol, form) : []
  return (
    <form
      className="panel playground-form"
      onSubmit={(event) => {
        event.preventDefault()
        onSend()
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit()
      }}
    >
      <Models draft={draft} />
      <div className="playground-line">
        <Select
          size="xs"
          aria-label="Protocol"
          value={protocol}
          onChange={(value) => change({ protocol: value as ConversationName, raw: undefined })}
          data={Object.entries(CONVERSATIONS).map(([value, label]) => ({ value, label }))}
        />
        <Switch
          size="xs"
          label="Stream"
          checked={form.stream}
          onChange={(e) => set({ stream: e.currentTarget.checked })}
        />
      </div>
      <BodyOf draft={draft} set={set} />
      {error !== undefined && (
        <p className="failed playground-note" role="alert">
          {error}
        </p>
      )}
      {lost.length > 0 && (
        <p className="lossy playground-note">
          {CONVERSATIONS[protocol]} cannot represent: {lost.join(', ')}.
        </p>
      )}
      <Send draft={draft} canSend={error === undefined} {...{ isRunning, onStop }} />
    </form>
  )
}

/** The form, or the JSON that rules over it. */
function BodyOf({ draft, set }: { draft: Draft; set(changes: Partial<Conversation>): void }) {
  const { models, form, raw, change } = draft
  return (
    <Tabs
      value={raw === undefined ? 'form' : 'raw'}
      onChange={(value) =>
        change({ raw: value === 'raw' ? writtenBody({ ...draft, raw: undefined }, models[0] ?? '').text : undefined })
      }
      keepMounted={false}
    >
      <Tabs.List>
        <Tabs.Tab value="form">Form</Tabs.Tab>
        <Tabs.Tab value="raw">JSON</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="form" className="playground-fields">
        <Textarea
          size="xs"
          label="System"
          autosize
          minRows={1}
          maxRows={8}
          value={form.system}
          onChange={(event) => set({ system: event.target.value })}
        />
        <Turns turns={form.turns} onChange={(turns) => set({ turns })} />
        <Settings form={form} set={set} />
      </Tabs.Panel>
      <Tabs.Panel value="raw" className="playground-fields">
        <Textarea
          size="xs"
          aria-label="Body of the request"
          classNames={{ input: 'playground-raw' }}
          autosize
          minRows={14}
          maxRows={28}
          spellCheck={false}
          value={raw ?? ''}
          onChange={(event) => change({ raw: event.target.value })}
        />
        <p className="dim playground-note">It is sent as it is here, to each model of the comparison.</p>
      </Tabs.Panel>
    </Tabs>
  )
}

type SendProps = { draft: Draft; canSend: boolean; isRunning: boolean; onStop(): void }

/** Both buttons have keys: an element that turned into the other one within a click would send the form again. */
function Send({ draft, canSend, isRunning, onStop }: SendProps) {
  const { models, raw } = draft
  return (
    <div className="playground-send">
      {isRunning ? (
        <Button key="stop" size="sm" variant="default" type="button" onClick={onStop}>
          Stop
        </Button>
      ) : (
        <Button key="send" size="sm" type="submit" disabled={!canSend} leftSection={<Icon name="play" size={14} />}>
          Send
        </Button>
      )}
      <span className="dim playground-keys">
        <kbd>Ctrl</kbd> <kbd>Enter</kbd>
      </span>
      {models.some((model) => model.startsWith('sandbox/')) && raw === undefined && <Directives draft={draft} />}
    </div>
  )
}

function Models({ draft: { models, change } }: { draft: Draft }) {
  const known = useModels()
  const names = (known.data?.data ?? []).filter(({ on }) => on !== false).map(({ id }) => id)
  const set = (index: number, model: string): void =>
    change({ models: models.map((one, at) => (at === index ? model : one)) })
  return (
    <div className="playground-models">
      {models.map((model, index) => (
        <div key={index} className="playground-model">
          <Autocomplete
            size="xs"
            aria-label={models.length === 1 ? 'Model' : `Model ${index + 1}`}
            value={model}
            onChange={(value) => set(index, value)}
            data={[...new Set(names)]}
            limit={40}
          />
          {models.length > 1 && (
            <button
              type="button"
              className="playground-remove"
              aria-label={`Remove ${model}`}
              onClick={() => change({ models: models.filter((_, at) => at !== index) })}
            >
              <Icon name="close" size={13} />
            </button>
          )}
        </div>
      ))}
      {models.length < MOST_MODELS && (
        <button
          type="button"
          className="link playground-compare"
          onClick={() => change({ models: [...models, models.at(-1) ?? ''] })}
        >
          <Icon name="plus" size={12} /> Compare
        </button>
      )}
    </div>
  )
}

/** Puts a directive into the last turn of the user. */
function Directives({ draft: { form, change } }: { draft: Draft }) {
  const insert = (text: string): void => {
    const at = form.turns.findLastIndex(({ role }) => role === 'user')
    const turns = form.turns.map((turn, index) => (index === at ? { ...turn, text } : turn))
    change({ form: { ...form, turns } })
  }
  return (
    <Menu position="top-end">
      <Menu.Target>
        <Button size="compact-sm" variant="subtle" color="gray" className="playground-sandbox">
          Sandbox does ...
        </Button>
      </Menu.Target>
      <Menu.Dropdown className="playground-directives">
        {DIRECTIVES.map(({ group, items }) => [
          <Menu.Label key={group}>{group}</Menu.Label>,
          ...items.map(({ name, text }) => (
            <Menu.Item key={name} onClick={() => insert(text)}>
              {name}
            </Menu.Item>
          )),
        ])}
      </Menu.Dropdown>
    </Menu>
  )
}
