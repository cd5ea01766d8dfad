import { Button } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { To } from '../../app/scope.tsx'
import { ask, urlOf } from '../../api/ask.ts'
import type { Page } from '../../api/answers.ts'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { Money } from '../../parts/money.tsx'
import { Panel } from '../../parts/page.tsx'
import { oneLine, visible } from '../../parts/visible.ts'
import { When } from '../../parts/when.tsx'
import type { BookAccount, Transfer } from './shapes.ts'

const ROWS = 50
const MOST_PAGES = 20

/** The postings, the newest first. */
export function Transfers({ account }: { account: string | undefined }) {
  const pages = useInfiniteQuery<Page<Transfer>, Error>({
    queryKey: ['/book/transfers', 'pages', account],
    queryFn: ({ pageParam, signal }) =>
      ask('GET', '/book/transfers', {
        query: { account, limit: ROWS, cursor: pageParam as string | undefined },
        signal,
      }),
    meta: { http: urlOf('/book/transfers', { account, limit: ROWS }) },
    initialPageParam: undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
  })
  const transfers = pages.data?.pages.flatMap(({ data }) => data)
  const isFull = (pages.data?.pages.length ?? 0) >= MOST_PAGES
  return (
    <Panel title="Postings" flush>
      <Loaded asked={{ ...pages, data: transfers }} height={360} lines={8}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty icon="book" title="Nothing has been posted yet">
              Credit, bills of requests and renewals of plans appear here.
            </Empty>
          ) : (
            <>
              <p className="table-note dim">
                Those of the newest requests first. The time is that of the posting, at the end of its request.
              </p>
              <Table rows={rows} />
              {pages.hasNextPage && !isFull && (
                <div className="book-more">
                  <Button
                    size="compact-sm"
                    variant="default"
                    loading={pages.isFetchingNextPage}
                    onClick={() => void pages.fetchNextPage()}
                  >
                    Older postings
                  </Button>
                </div>
              )}
              {isFull && <p className="dim book-more">Older ones are in the export and in the API.</p>}
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}

const named = ({ kind, owner, account }: BookAccount): string =>
  owner === null ? kind : `${kind}, ${visible(account?.name ?? owner)}`

/** A reference that is the id of a request. */
const REQUEST = /^[0-9a-f]{32}$/

function Table({ rows }: { rows: readonly Transfer[] }) {
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Postings">
      <table className="table">
        <thead>
          <tr>
            <th>Time</th>
            <th>Kind</th>
            <th className="wide">Debit</th>
            <th className="wide">Credit</th>
            <th>For</th>
            <th className="right">Amount, USD</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ reference, at, kind, debit, credit, amount_usd, note }, index) => (
            <tr key={index}>
              <td className="dim">
                <When at={at} />
              </td>
              <td>{kind}</td>
              <td className="wide cut">{named(debit)}</td>
              <td className="wide cut">{named(credit)}</td>
              <td>
                {REQUEST.test(reference) ? (
                  <To path={`/requests/${reference}`} className="link">
                    request
                  </To>
                ) : (
                  <span className="dim" title={reference}>
                    {oneLine(note ?? reference, 40)}
                  </span>
                )}
              </td>
              <td className="right">
                <Money usd={amount_usd} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
