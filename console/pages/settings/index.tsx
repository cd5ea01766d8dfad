import { useSettings, useSystem } from '../../api/queries.ts'
import type { System } from '../../api/answers.ts'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Icon } from '../../parts/icons.tsx'
import { PageFrame, Panel } from '../../parts/page.tsx'
import { Code } from '../../parts/snippet.tsx'
import { TableScroll } from '../../parts/table-scroll.tsx'
import { visible } from '../../parts/visible.ts'
import { bytesText, count } from '../../parts/when.ts'
import { Ago } from '../../parts/when.tsx'

const SYSTEM_EVERY_MS = 10_000

/** The server and its settings as they are in force. They are changed where it is deployed from. */
export function SettingsPage() {
  const system = useSystem({ refetchInterval: SYSTEM_EVERY_MS })
  const settings = useSettings()
  return (
    <PageFrame title="Settings">
      <div className="system-grid">
        <Panel title="System">
          <Loaded asked={system} height={280} lines={7}>
            {(data) => <SystemFacts system={data} />}
          </Loaded>
        </Panel>
        <Panel title="Settings in force" flush>
          <Loaded asked={settings} height={400} lines={10}>
            {({ file, settings: members }) => (
              <>
                <p className="table-note">
                  {file === null ? 'There is no configuration file: these are defaults.' : `From ${file}.`} They are
                  changed there, and hold from the next start.
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
        <Fact name="Memory">{bytesText(system.memory_bytes)}</Fact>
        <Fact name="of it large requests">{bytesText(system.request_memory_bytes)}</Fact>
        <Fact name="Free on disk">
          {system.disk_free_bytes === null ? 'unknown' : bytesText(system.disk_free_bytes)}
        </Fact>
        <Fact name="Data">{visible(system.data)}</Fact>
        <Fact name="Public address">{system.url ?? <span className="dim">none</span>}</Fact>
      </Facts>
      <div>
        <p className="snippet-title">The same over HTTP</p>
        <Code
          name="command"
          text={`curl ${window.location.origin}/v1/management/system -H "authorization: Bearer $SLUICE_MANAGEMENT_KEY"`}
        />
      </div>
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
              <td>
                <code className="small">{path}</code>
              </td>
              <td className="setting number">{visible(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableScroll>
  )
}
