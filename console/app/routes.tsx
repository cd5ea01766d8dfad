/** Every page: its path, where the navigation names it, and who sees it. A page is loaded when it is first shown. */
import { type ComponentType, lazy, type LazyExoticComponent } from 'react'
import type { IconName } from '../parts/icons.tsx'
import type { May } from './session.tsx'

export type PageRoute = {
  path: string
  /** The page shows one thing of it at `path/ID`, too. */
  opens?: true
  title: string
  page: LazyExoticComponent<ComponentType>
  /** Absent: the page is reached from others only. */
  icon?: IconName
  group?: 'activity' | 'access' | 'installation'
  /** The second key of `g ...`. */
  key?: string
  canSee?: (may: May) => boolean
}

export const installation = (may: May): boolean => may.readInstallation

export const PAGES: readonly PageRoute[] = [
  {
    path: '/',
    title: 'Home',
    icon: 'home',
    group: 'activity',
    key: 'h',
    page: lazy(() => import('../pages/overview/index.tsx').then(({ Home }) => ({ default: Home }))),
  },
  {
    path: '/requests',
    title: 'Requests',
    icon: 'requests',
    group: 'activity',
    key: 'r',
    page: lazy(() => import('../pages/requests/index.tsx').then(({ Requests }) => ({ default: Requests }))),
  },
  {
    path: '/requests/:id',
    title: 'Request',
    page: lazy(() => import('../pages/request/index.tsx').then(({ Request }) => ({ default: Request }))),
  },
  {
    path: '/jobs',
    title: 'Jobs',
    icon: 'jobs',
    group: 'activity',
    key: 'j',
    page: lazy(() => import('../pages/jobs/index.tsx').then(({ Jobs }) => ({ default: Jobs }))),
  },
  {
    path: '/usage',
    title: 'Usage',
    icon: 'usage',
    group: 'activity',
    key: 'u',
    page: lazy(() => import('../pages/usage/index.tsx').then(({ Usage }) => ({ default: Usage }))),
  },
  {
    path: '/playground',
    title: 'Playground',
    icon: 'play',
    group: 'activity',
    key: 'p',
    canSee: ({ createKeys }) => createKeys,
    page: lazy(() => import('../pages/playground/index.tsx').then(({ Playground }) => ({ default: Playground }))),
  },
  {
    path: '/keys',
    opens: true,
    title: 'Keys',
    icon: 'key',
    group: 'access',
    key: 'k',
    page: lazy(() => import('../pages/keys/index.tsx').then(({ Keys }) => ({ default: Keys }))),
  },
  {
    path: '/accounts',
    opens: true,
    title: 'Accounts',
    icon: 'account',
    group: 'access',
    key: 'a',
    page: lazy(() => import('../pages/accounts/index.tsx').then(({ Accounts }) => ({ default: Accounts }))),
  },
  {
    path: '/book',
    title: 'Book',
    icon: 'book',
    group: 'installation',
    key: 'b',
    canSee: ({ seeBook }) => seeBook,
    page: lazy(() => import('../pages/book/index.tsx').then(({ Book }) => ({ default: Book }))),
  },
  {
    path: '/people',
    opens: true,
    title: 'People',
    icon: 'people',
    group: 'access',
    key: 'e',
    page: lazy(() => import('../pages/people/index.tsx').then(({ People }) => ({ default: People }))),
  },
  {
    path: '/models',
    title: 'Models',
    icon: 'model',
    group: 'installation',
    key: 'm',
    page: lazy(() => import('../pages/models/index.tsx').then(({ Models }) => ({ default: Models }))),
  },
  {
    path: '/providers',
    title: 'Providers',
    icon: 'provider',
    group: 'installation',
    key: 'v',
    canSee: installation,
    page: lazy(() => import('../pages/providers/index.tsx').then(({ Providers }) => ({ default: Providers }))),
  },
  {
    path: '/plans',
    title: 'Plans',
    icon: 'plan',
    group: 'installation',
    key: 'l',
    page: lazy(() => import('../pages/plans/index.tsx').then(({ Plans }) => ({ default: Plans }))),
  },
  {
    path: '/settings',
    title: 'Settings',
    icon: 'settings',
    group: 'installation',
    key: 's',
    canSee: installation,
    page: lazy(() => import('../pages/settings/index.tsx').then(({ SettingsPage }) => ({ default: SettingsPage }))),
  },
]

export const GROUPS = [
  ['activity', 'Activity'],
  ['access', 'Access'],
  ['installation', 'Installation'],
] as const

/** Pages of `may` that the navigation names. */
export const namedPages = (may: May): PageRoute[] =>
  PAGES.filter(({ icon, canSee = () => true }) => icon !== undefined && canSee(may))
