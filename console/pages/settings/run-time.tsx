import { Button, Modal, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { ApiError, urlOf } from '../../api/ask.ts'
import type { Reloaded, RunTimeSetting, Settings } from '../../api/answers.ts'
import { useChange, useTagged } from '../../api/queries.ts'
import { useSigned } from '../../app/session.tsx'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { Panel } from '../../parts/page.tsx'
import { named, NoSetting, SettingPath, shownValue } from './path.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'

const textOf = (value: unknown): string =>
  value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)

/** A number, true, false or a list where the text is one; else the text. Empty: null, for the default. */
function valueOf(text: string): unknown {
  if (text === '') return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A path and its value as a body: `{timeouts: {idle}}`. */
const bodyOf = (path: string, value: unknown): Record<string, unknown> =>
  path.split('.').reduceRight<unknown>((of, name) => ({ [name]: of }), value) as Record<string, unknown>

/** Settings that can be changed while the server runs. */
export function RunTimeSettings({ filter }: { filter: string }) {
  const { may } = useSigned()
  const asked = useTagged<Settings>('/settings')
  const [opened, setOpened] = useState<RunTimeSetting>()
  return (
    <Panel title="Settings at run time" flush actions={may.changeInstallation && <FileActions />}>
      <Loaded asked={asked} height={400} lines={10}>
        {({ data, etag }) => (
          <>
            <p className="table-note dim">
              What sluice.yaml sets is changed there. The rest can be changed here, and holds from the next request on.
            </p>
            <RunTimeTable settings={data.run_time.filter(named(filter))} onOpen={setOpened} />
            {opened !== undefined && (
              <ChangeSetting setting={opened} etag={etag} onClose={() => setOpened(undefined)} />
            )}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

function RunTimeTable(props: { settings: readonly RunTimeSetting[]; onOpen: (setting: RunTimeSetting) => void }) {
  const { may } = useSigned()
  if (props.settings.length === 0) return <NoSetting />
  return (
    <TableScroll label="Settings at run time">
      <table className="table">
        <thead>
          <tr>
            <th>Setting</th>
            <th className="wide">Set by</th>
            <th className="right">Value</th>
            {may.changeInstallation && <th className="right">Change</th>}
          </tr>
        </thead>
        <tbody>
          {props.settings.map((setting) => (
            <tr key={setting.path}>
              <td className="setting-name">
                <SettingPath path={setting.path} />
              </td>
              <td className="wide dim">{setting.set_in ?? (setting.set === null ? 'default' : 'console')}</td>
              <td className="setting number">{visible(shownValue(setting.in_force))}</td>
              {may.changeInstallation && (
                <td className="right">
                  {setting.set_in === null && (
                    <Button
                      size="compact-sm"
                      variant="default"
                      aria-label={`Change ${setting.path}`}
                      onClick={() => props.onOpen(setting)}
                    >
                      Change
                    </Button>
                  )}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}

function ChangeSetting(props: { setting: RunTimeSetting; etag: string | null; onClose: () => void }) {
  const { setting, etag, onClose } = props
  const [text, setText] = useState(textOf(setting.set))
  const save = useChange<unknown>(
    'PATCH',
    () => '/settings',
    ['/settings', '/changes'],
    (value) => ({ body: bodyOf(setting.path, value), ...(etag === null ? {} : { ifMatch: etag }) }),
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    save.mutate(valueOf(text.trim()), { onSuccess: onClose })
  }
  const isAtField = save.error instanceof ApiError && save.error.param?.startsWith(setting.path) === true
  return (
    <Modal opened onClose={onClose} title={setting.path}>
      <form onSubmit={submit} className="stack" aria-label="Change the setting">
        <TextInput
          label="Value"
          description={`${setting.description}. Empty: the default.`}
          placeholder={textOf(setting.in_force)}
          data-autofocus
          autoComplete="off"
          value={text}
          error={isAtField ? save.error?.message : undefined}
          onChange={({ currentTarget: { value } }) => setText(value)}
        />
        {save.error !== null && !isAtField && <Fault error={save.error} />}
        <Button type="submit" loading={save.isPending}>
          Save
        </Button>
      </form>
    </Modal>
  )
}

/** Reads the file again, and writes file and console as one. */
function FileActions() {
  const reload = useChange<void, Reloaded>(
    'POST',
    () => '/settings/reload',
    ['/settings', '/providers', '/health', '/models', '/plans'],
    () => ({ body: {} }),
  )
  const restart = reload.data?.restart ?? []
  return (
    <div className="page-actions">
      {reload.error !== null && <Fault error={reload.error} />}
      {reload.data !== undefined && (
        <span role="status" className="dim">
          {restart.length === 0 ? 'The file was read again.' : `From the next start on: ${restart.join(', ')}`}
        </span>
      )}
      <Button size="compact-sm" variant="default" loading={reload.isPending} onClick={() => reload.mutate()}>
        Reload the file
      </Button>
      <Button size="compact-sm" variant="default" component="a" href={urlOf('/settings/export.yaml')} download>
        Export
      </Button>
    </div>
  )
}
