import { ActionIcon, Drawer, Menu, Select, Tooltip, useMantineColorScheme } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { useLocation } from 'wouter'
import { ask } from '../api/ask.ts'
import { useAccounts } from '../api/queries.ts'
import { changeSession } from '../api/session-change.ts'
import { Icon } from '../parts/icons.tsx'
import { browserZone, setZone, useZone } from '../parts/when.tsx'
import { Brand } from '../pages/enter/index.tsx'
import { CaptureStrip } from './capture-strip.tsx'
import { MOD, useKeyboard } from './keyboard.tsx'
import { Palette, openPalette } from './palette.tsx'
import { GROUPS, namedPages } from './routes.tsx'
import { RangeChoice } from './range-choice.tsx'
import { To, useScope } from './scope.tsx'
import { useSigned } from './session.tsx'
import { StaleStrip } from './stale-strip.tsx'

/** Navigation, bar and palette around a page. */
export function Shell({ children }: { children: ReactNode }) {
  const [opened, { open, close }] = useDisclosure(false)
  const [path] = useLocation()
  const keyboard = useKeyboard()
  useEffect(close, [path, close])
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <aside className="side">
        <Brand />
        <Navigation />
      </aside>
      <Drawer opened={opened} onClose={close} position="left" size={248} title={<Brand />}>
        <Navigation />
      </Drawer>
      <Bar onMenu={open} onKeyboard={keyboard.open} />
      <main id="content" className="content" tabIndex={-1}>
        <StaleStrip />
        <CaptureStrip />
        {children}
      </main>
      <Palette />
      {keyboard.list}
    </div>
  )
}

function Navigation() {
  const { may } = useSigned()
  const [path] = useLocation()
  const pages = namedPages(may)
  const isHere = (one: string): boolean => (one === '/' ? path === '/' : path === one || path.startsWith(`${one}/`))
  return (
    <nav className="nav" aria-label="Pages">
      {GROUPS.map(([group, name]) => {
        const rows = pages.filter((page) => page.group === group)
        return rows.length === 0 ? null : (
          <div key={group} className="nav-group">
            <span className="nav-name">{name}</span>
            {rows.map(({ path: to, title, icon }) => (
              <To key={to} path={to} className="nav-link" aria-current={isHere(to) ? 'page' : undefined}>
                <Icon name={icon!} />
                {title}
              </To>
            ))}
          </div>
        )
      })}
      <div className="nav-group">
        <a href="/console/reference" className="nav-link">
          <Icon name="reference" />
          API reference
        </a>
      </div>
    </nav>
  )
}

function Bar({ onMenu, onKeyboard }: { onMenu: () => void; onKeyboard: () => void }) {
  return (
    <section className="bar" aria-label="Tools">
      <ActionIcon className="bar-menu" variant="subtle" color="gray" size="lg" aria-label="Pages" onClick={onMenu}>
        <Icon name="menu" size={20} />
      </ActionIcon>
      <AccountChoice />
      <button type="button" className="bar-search" onClick={openPalette}>
        <Icon name="search" />
        <span>Search or jump to</span>
        <kbd>{`${MOD} K`}</kbd>
      </button>
      <div className="bar-right">
        <RangeChoice />
        <ZoneChoice />
        <OwnMenu onKeyboard={onKeyboard} />
      </div>
    </section>
  )
}

function AccountChoice() {
  const { account, setAccount } = useScope()
  const accounts = useAccounts()
  const all = accounts.data?.data ?? []
  if (all.length < 2) return <span className="bar-account">{all[0]?.name ?? ''}</span>
  return (
    <Select
      className="bar-account"
      size="xs"
      aria-label="Account"
      searchable
      clearable
      placeholder="All accounts"
      value={account ?? null}
      onChange={(value) => setAccount(value ?? undefined)}
      data={all.map(({ id, name }) => ({ value: id, label: name }))}
    />
  )
}

function ZoneChoice() {
  const zone = useZone()
  const next = zone === 'UTC' ? 'browser' : 'UTC'
  const isSame = browserZone === 'UTC'
  const short = zone.split('/').at(-1)!.replaceAll('_', ' ')
  if (isSame) return <span className="bar-zone">UTC</span>
  return (
    <Tooltip label={`Times are in ${zone}. Show them in ${next === 'UTC' ? 'UTC' : browserZone}.`}>
      <button type="button" className="bar-zone" onClick={() => setZone(next)}>
        {short}
      </button>
    </Tooltip>
  )
}

function OwnMenu({ onKeyboard }: { onKeyboard: () => void }) {
  const { session } = useSigned()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const client = useQueryClient()
  const [, navigate] = useLocation()
  const { to } = useScope()
  const signOut = async (): Promise<void> => {
    await ask('DELETE', '/session', { isSignIn: true }).catch(() => {})
    changeSession(client, null)
    navigate('/enter')
  }
  const initials = session.user.name
    .split(/\s+/)
    .map((word) => word[0] ?? '')
    .slice(0, 2)
    .join('')
    .toUpperCase()
  const schemes = [
    ['light', 'Light', 'sun'],
    ['dark', 'Dark', 'moon'],
    ['auto', 'As the system', 'system'],
  ] as const
  return (
    <Menu width={220}>
      <Menu.Target>
        <button type="button" className="avatar" aria-label={`${initials}, ${session.user.name}: own menu`}>
          <span aria-hidden>{initials}</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <div className="own">
          <strong>{session.user.name}</strong>
          <span>{session.roles.map(({ role }) => role).join(', ')}</span>
        </div>
        <Menu.Divider />
        <Menu.Label>Scheme</Menu.Label>
        {schemes.map(([value, name, icon]) => (
          <Menu.Item
            key={value}
            leftSection={<Icon name={icon} />}
            rightSection={colorScheme === value ? <Icon name="check" /> : null}
            onClick={() => setColorScheme(value)}
          >
            {name}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item
          leftSection={<Icon name="people" />}
          onClick={() => navigate(to(`/people/${encodeURIComponent(session.user.id)}`))}
        >
          Password and sessions
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="keyboard" />} rightSection={<kbd>?</kbd>} onClick={onKeyboard}>
          Keyboard
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="out" />} onClick={() => void signOut()}>
          Sign out
        </Menu.Item>
        <div className="own-foot">Sluice {session.version}</div>
      </Menu.Dropdown>
    </Menu>
  )
}
