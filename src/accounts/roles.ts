/** The scope of roles that hold everywhere; another scope is the id of an account. */
export const INSTALLATION = 'installation'

export const ROLE_NAMES = ['owner', 'admin', 'member', 'viewer'] as const
export type RoleName = (typeof ROLE_NAMES)[number]

/**
 * A role on the whole installation or on one account. `requests`: of a member whose account shows its members the
 * requests of all keys.
 */
export type Role = { scope: string; role: RoleName; requests?: 'all' }

/** The roles that a scope can have. */
export const rolesOf = (scope: string): readonly RoleName[] =>
  scope === INSTALLATION ? ['owner', 'admin', 'viewer'] : ['admin', 'member', 'viewer']

const COLUMNS = ['owner', 'admin', 'viewer', 'account admin', 'account member', 'account viewer'] as const
type Column = (typeof COLUMNS)[number]

/** `all`: whatever is in the role's scope. `own`: what belongs to the caller's own keys there. */
type Cell = 'all' | 'own' | '-'
type Row = readonly [Cell, Cell, Cell, Cell, Cell, Cell]

const EVERYONE: Row = ['all', 'all', 'all', 'all', 'all', 'all']
const OPERATORS: Row = ['all', 'all', 'all', '-', '-', '-']
const ADMINS: Row = ['all', 'all', '-', '-', '-', '-']

/** The rights of people and management keys. The columns are those of `COLUMNS`. */
const TABLE = {
  'requests.read': ['all', 'all', 'all', 'all', 'own', 'all'],
  'usage.read': EVERYONE,
  'bodies.read': ['all', 'all', '-', 'all', 'own', '-'],
  'keys.read': ['all', 'all', 'all', 'all', 'own', 'all'],
  'keys.change': ['all', 'all', '-', 'all', 'own', '-'],
  'playground.use': ['all', 'all', '-', 'all', 'all', '-'],
  'jobs.change': ['all', 'all', '-', 'all', 'own', '-'],
  'files.change': ['all', 'all', '-', 'all', '-', '-'],
  'accounts.read': EVERYONE,
  'accounts.change': ADMINS,
  'models.read': EVERYONE,
  'settings.read': OPERATORS,
  'settings.change': ADMINS,
  'book.read': ['all', 'all', 'all', 'all', '-', 'all'],
  'book.audit': OPERATORS,
  'changes.read': ['all', 'all', 'all', 'all', '-', '-'],
  'people.read': EVERYONE,
  'people.change': ['all', 'all', '-', 'all', '-', '-'],
  'system.read': OPERATORS,
} as const satisfies Record<string, Row>

export type Action = keyof typeof TABLE
export const ACTIONS = Object.keys(TABLE) as Action[]

const columnOf = ({ scope, role }: Role): Column =>
  scope === INSTALLATION ? (role as Column) : (`account ${role}` as Column)

const cellOf = (action: Action, role: Role): Cell =>
  action === 'requests.read' && role.requests === 'all'
    ? 'all'
    : (TABLE[action][COLUMNS.indexOf(columnOf(role))] ?? '-')

/** The least role with an action, in words. */
export function leastRole(action: Action): string {
  const least = COLUMNS.findLast((_, index) => TABLE[action][index] !== '-') ?? 'owner'
  return least.startsWith('account ') ? least : `${least} of the installation`
}

/**
 * The accounts in which an action is allowed: all there are; or those in `accounts`, and those in `own` for what
 * belongs to the caller's own keys.
 */
export type Reach = 'all' | { accounts: readonly string[]; own: readonly string[] }

export function reachOf(roles: readonly Role[], action: Action): Reach {
  const withCell = (cell: Cell): Role[] => roles.filter((role) => cellOf(action, role) === cell)
  const whole = withCell('all').map(({ scope }) => scope)
  if (whole.includes(INSTALLATION)) return 'all'
  const own = withCell('own').map(({ scope }) => scope)
  return { accounts: whole, own: own.filter((scope) => !whole.includes(scope)) }
}

/** True where one role has at least the rights of another in the same scope, or on the whole installation. */
export const covers = (roles: readonly Role[], wanted: Role): boolean =>
  roles.some(
    (role) =>
      (role.scope === wanted.scope || role.scope === INSTALLATION) &&
      COLUMNS.indexOf(columnOf(role)) <= COLUMNS.indexOf(columnOf(wanted)) &&
      ACTIONS.every((action) => RANK[cellOf(action, role)] >= RANK[cellOf(action, wanted)]),
  )

const RANK: Record<Cell, number> = { '-': 0, own: 1, all: 2 }
