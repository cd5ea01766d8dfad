import { Button } from '@mantine/core'
import type { Page, UserSession } from '../../api/answers.ts'
import { useAsk, useChange } from '../../api/queries.ts'
import { Fault, Loaded } from '../../parts/fault.tsx'
import { oneLine } from '../../parts/visible.ts'
import { Ago } from '../../parts/when.tsx'

const BROWSERS = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'] as const
const BROWSER_NAMES: Record<string, string> = { Edg: 'Edge', OPR: 'Opera' }
const SYSTEMS = ['Windows', 'Android', 'iPhone', 'iPad', 'Mac', 'Linux'] as const

/** `Chrome on Linux`; another User-Agent as it is. */
function clientText(client: string): string {
  const browser = BROWSERS.find((name) => client.includes(`${name}/`))
  const system = SYSTEMS.find((name) => client.includes(name))
  if (browser === undefined || system === undefined) return oneLine(client, 60)
  return `${BROWSER_NAMES[browser] ?? browser} on ${system}`
}

/** The sessions of a user, and the buttons that end them. */
export function Sessions({ id }: { id: string }) {
  const path = `/users/${encodeURIComponent(id)}/sessions`
  const asked = useAsk<Page<UserSession>>(path)
  const end = useChange<string | undefined>(
    'DELETE',
    (session) => (session === undefined ? path : `${path}/${session}`),
    [path],
  )
  return (
    <div className="stack">
      <div className="panel-head">
        <h3>Sessions</h3>
        <Button size="compact-sm" variant="default" loading={end.isPending} onClick={() => end.mutate(undefined)}>
          Sign out everywhere
        </Button>
      </div>
      {end.error !== null && <Fault error={end.error} />}
      <Loaded asked={asked} height={80}>
        {({ data }) => (
          <ul className="rows rows-boxed">
            {data.map((session) => (
              <li key={session.id} className="rows-link">
                <span className="rows-main" title={session.client ?? undefined}>
                  {clientText(session.client ?? 'unknown client')}
                  <span className="dim">
                    {session.address === null ? '' : `, ${session.address}`}, <Ago at={session.last_seen_at} />
                  </span>
                </span>
                {session.current ? (
                  <span className="dim">this one</span>
                ) : (
                  <button type="button" className="link" onClick={() => end.mutate(session.id)}>
                    End
                  </button>
                )}
              </li>
            ))}
            {data.length === 0 && <li className="rows-link dim">none</li>}
          </ul>
        )}
      </Loaded>
    </div>
  )
}
