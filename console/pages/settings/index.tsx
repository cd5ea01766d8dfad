import { useSettings, useSystem, useTagged } from '../../api/queries.ts'
import type { Capture, System } from '../../api/answers.ts'
import { useSigned } from '../../app/session.tsx'
import { CaptureSwitch } from '../../parts/capture-switch.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { bytesText, count } from '../../parts/when.ts'
import { Ago } from '../../parts/when.tsx'
import { SettingPath } from './path.tsx'
import { RunTimeSettings } from './run-time.tsx'

const SYSTEM_EVERY_MS = 10_000

/** The server and its settings as they are in force, and those that can be changed here. */
export function SettingsPage() {
  const system = useSystem({ refetchInterval: SYSTEM_EVERY_MS })
  const settings = useSettings()
  const { may } = useSigned()
  return (
    <PageFrame title="Settings">
      <RunTimeSettings />
      <div className="system-grid">
        <div>
          <Panel title="System">
            <Loaded asked={system} height={280} lines={7}>
              {(data) => <SystemFacts system={data} />}
            </Loaded>
          </Panel>
          {may.changeInstallation && <InstallationCapture />}
        </div>
        <Panel title="All settings in force" flush>
          <Loaded asked={settings} height={400} lines={10}>
            {({ file, settings: members }) => (
              <>
                <p className="table-note dim">
                  {file === null ? 'There is no configuration file: these are defaults.' : `From ${file}.`} A change
                  there holds from the next start, or when the file is read again.
                </p>
                <SettingsTable members={members} />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </PageFrame>
  )
}

/** The switch of all keys and accounts that have none of their own. */
function InstallationCapture() {
  const asked = useTagged<{ capture: Capture | null }>('/settings/capture')
  return (
    <Panel title="All keys and accounts">
      <Loaded asked={asked} height={160} lines={3}>
        {(answer) => <CaptureSwitch path="/settings/capture" answer={answer} />}
      </Loaded>
    </Panel>
  )
}

function SystemFacts({ system }: { system: System }) {
  return (
    <div className="stack-wide">
      {system.problems.map((problem) => (
        <p key={problem} className="problem" role="status">
          <Icon name="alert" /> {visible(problem)}
        </p>
      ))}
      <Facts>
        <Fact name="Version">
          {system.version}, {system.runtime}
        </Fact>
        <Fact name="Started">
          <Ago at={system.started_at} />
        </Fact>
        <Fact name="Requests in flight">{count(system.open_requests)}</Fact>
        <Fact name="Memory in use">{bytesText(system.memory_bytes)}</Fact>
        <Fact name="For large requests">{bytesText(system.request_memory_bytes)}</Fact>
        <Fact name="Free on disk">
          {system.disk_free_bytes === null ? 'unknown' : bytesText(system.disk_free_bytes)}
        </Fact>
        <Fact name="Data">{visible(system.data)}</Fact>
        <Fact name="Public address">{system.url ?? <span className="dim">none</span>}</Fact>
      </Facts>
    </div>
  )
}

type Row = readonly [path: string, value: string]

/** Leaves of the settings with their paths, as in sluice.yaml. */
function rowsOf(value: unknown, path = ''): Row[] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, member]) => rowsOf(member, path === '' ? name : `${path}.${name}`))
  return [[path, value === null ? 'none' : typeof value === 'string' ? value : JSON.stringify(value)]]
}

function SettingsTable({ members }: { members: Record<string, unknown> }) {
  return (
    <TableScroll label="Settings">
      <table className="table">
        <thead>
          <tr>
            <th>Setting</th>
            <th className="right">Value</th>
          </tr>
        </thead>
        <tbody>
          {rowsOf(members).map(([path, value]) => (
            <tr key={path}>
              <td className="setting-name">
                <SettingPath path={path} />
              </td>
              <td className="setting number">{visible(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}
