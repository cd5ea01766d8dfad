import { type ReactNode, Suspense, useEffect } from 'react'
import { Redirect, Route, Switch } from 'wouter'
import { useSession } from '../api/queries.ts'
import { Boundary } from '../parts/boundary.tsx'
import { Empty } from '../parts/empty.tsx'
import type { IconName } from '../parts/icons.tsx'
import { Fault, Loading } from '../parts/fault.tsx'
import { PageFrame } from '../parts/page.tsx'
import { Enter } from '../pages/enter/index.tsx'
import { MOD } from './keyboard.tsx'
import { PAGES } from './routes.tsx'
import { To } from './scope.tsx'
import { SessionProvider, useSigned } from './session.tsx'
import { Shell } from './shell.tsx'
import { SignInAgain } from './sign-in-again.tsx'

/** The console: the page to enter for those without a session, all others in the shell. */
export function App() {
  const session = useSession()
  return (
    <Switch>
      <Route path="/enter">
        <Enter session={session.data ?? null} />
      </Route>
      <Route>
        {session.data ? (
          <SessionProvider session={session.data}>
            <Shell>
              <Pages />
            </Shell>
            <SignInAgain />
          </SessionProvider>
        ) : session.error ? (
          <main className="alone">
            <Fault error={session.error} retry={session.refetch} />
          </main>
        ) : session.data === null ? (
          <Redirect to="/enter" />
        ) : (
          <Loading height={400} />
        )}
      </Route>
    </Switch>
  )
}

/** In place of a page: why, as its heading. */
function NoPage({ icon, title, children }: { icon: IconName; title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Sluice`
  }, [title])
  const toHome = (
    <To path="/" className="link">
      Go to Home
    </To>
  )
  return (
    <Empty icon={icon} title={<h1>{title}</h1>} action={toHome}>
      {children}
    </Empty>
  )
}

function Pages() {
  const { may } = useSigned()
  return (
    <Switch>
      {PAGES.map(({ path, title, opens, canSee = () => true, page: Page }) => (
        <Route key={path} path={opens === true ? `${path}/:id?` : path}>
          <Boundary>
            {canSee(may) ? (
              <Suspense fallback={<LoadingPage title={title} />}>
                <Page />
              </Suspense>
            ) : (
              <NoPage icon="people" title={`Your role does not include the page ${title}`}>
                An owner or an admin can give you one that does.
              </NoPage>
            )}
          </Boundary>
        </Route>
      ))}
      <Route>
        <NoPage icon="search" title="There is no such page">
          Press <kbd>{MOD}</kbd> <kbd>K</kbd> to find pages, models, keys and requests.
        </NoPage>
      </Route>
    </Switch>
  )
}

/** A page whose script is loading. Its title is that of the page, so that one heading stays. */
const LoadingPage = ({ title }: { title: string }) => (
  <PageFrame title={title}>
    <Loading height={400} />
  </PageFrame>
)
