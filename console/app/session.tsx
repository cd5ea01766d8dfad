/** Who is signed in, and what their roles let them see. */
import { createContext, type ReactNode, useContext, useMemo } from 'react'
import type { Session } from '../api/answers.ts'

export type May = {
  /** Any role on the installation. */
  readInstallation: boolean
  changeInstallation: boolean
  isOwner: boolean
  /** People of some account, or all. */
  managePeople: boolean
  /** True where keys of others in `account` can be created and changed. */
  manageAccount(account: string): boolean
  createKeys: boolean
  /** Own keys, those of the playground too, in `account`. */
  createKeysIn(account: string): boolean
  /** Bodies of requests, at least of own keys. */
  seeBodies: boolean
  seeChanges: boolean
  /** Postings of the installation, or of some account. */
  seeBook: boolean
  /** Requests of keys of others; sums count them for everybody. */
  seeOthers: boolean
}

type Signed = { session: Session; may: May }

const SessionContext = createContext<Signed | null>(null)

function mayOf({ roles }: Session): May {
  const here = roles.filter(({ scope }) => scope === 'installation').map(({ role }) => role)
  const isOwner = here.includes('owner')
  const changeInstallation = isOwner || here.includes('admin')
  const seeBook = roles.some(({ scope, role }) => scope === 'installation' || role !== 'member')
  const administered = new Set(roles.filter(({ role }) => role === 'admin').map(({ scope }) => scope))
  const creatable = new Set(roles.filter(({ role }) => role !== 'viewer').map(({ scope }) => scope))
  return {
    isOwner,
    changeInstallation,
    readInstallation: here.length > 0,
    managePeople: changeInstallation || administered.size > 0,
    manageAccount: (account) => changeInstallation || administered.has(account),
    seeBook,
    seeOthers: seeBook || roles.some(({ requests }) => requests === 'all'),
    seeBodies: changeInstallation || creatable.size > 0,
    createKeys: changeInstallation || creatable.size > 0,
    createKeysIn: (account) => changeInstallation || creatable.has(account),
    seeChanges: here.length > 0 || administered.size > 0,
  }
}

export function SessionProvider({ session, children }: { session: Session; children: ReactNode }) {
  const signed = useMemo(() => ({ session, may: mayOf(session) }), [session])
  return <SessionContext.Provider value={signed}>{children}</SessionContext.Provider>
}

export function useSigned(): Signed {
  const signed = useContext(SessionContext)
  if (signed === null) throw new Error('no session around this component')
  return signed
}
