import { useSystem, useTagged } from '../../api/queries.ts'
import type { Capture, Settings, System } from '../../api/answers.ts'
import { useParam } from '../../app/param.ts'
import { useSigned } from '../../app/session.tsx'
import { CaptureSwitch } from '../../parts/capture-switch.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { FilterInput } from '../../parts/filter-input.tsx'
import { Icon } from '../../parts/icons.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { bytesText, count } from '../../parts/when.ts'
import { Ago } from '../../parts/when.tsx'
import { named, NoSetting, SettingPath, shownValue } from './path.tsx'
import { RunTimeSettings } from './run-time.tsx'

const SYSTEM_EVERY_MS = 10_000

/** The server and its settings as they are in force: those that can be changed here, and those of the file alone. */
export function SettingsPage() {
  const system = useSystem({ refetchInterval: SYSTEM_EVERY_MS })
  const { may } = useSigned()
  const [filter, setFilter] = useParam('q')
  return (
    <PageFrame title="Settings">
      <div className="system-grid">
        <Panel title="System">
          <Loaded asked={system} height={280} lines={7}>
            {(data) => <SystemFacts system={data} />}
          </Loaded>
        </Panel>
        {may.changeInstallation && <InstallationCapture />}
      </div>
      <div className="toolbar">
        <FilterInput label="Filter settings" placeholder="Filter by name" value={filter} onChange={setFilter} />
      </div>
      <RunTimeSettings filter={filter} />
      <FileSettings filter={filter} />
    </PageFrame>
  )
}

/** Settings that only sluice.yaml, the environment and the command line have. */
function FileSettings({ filter }: { filter: string }) {
  const asked = useTagged<Settings>('/settings')
  return (
    <Panel title="Settings of sluice.yaml" flush>
      <Loaded asked={asked} height={400} lines={10}>
        {({ data: { file, settings, run_time } }) => (
          <>
            <p className="table-note dim">
              {file === null ? 'There is no configuration file: these are defaults.' : `They are changed in ${file}.`} A
              change holds from the next start.
            </p>
            <SettingsTable rows={rowsOf(settings, new Set(run_time.map(({ path }) => path))).filter(named(filter))} />
          </>
        )}
      </Loaded>
    </Panel>
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

type Row = { path: string; value: string }

/** Leaves of the settings with their paths, as in sluice.yaml, without those that are named. */
function rowsOf(value: unknown, without: ReadonlySet<string>, path = ''): Row[] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, member]) =>
      rowsOf(member, without, path === '' ? name : `${path}.${name}`),
    )
  return without.has(path) ? [] : [{ path, value: shownValue(value) }]
}

function SettingsTable({ rows }: { rows: readonly Row[] }) {
  if (rows.length === 0) return <NoSetting />
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
          {rows.map(({ path, value }) => (
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
