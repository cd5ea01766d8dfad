import { Database } from 'bun:sqlite'
import { serveThread } from '../../../worker/thread.ts'
import type { RequestFilter, Scope, SpeedQuestion, UsageQuestion } from '../../reports.ts'
import { JobList } from './jobs.ts'
import { NameCache } from './name-cache.ts'
import { firstIdAt, ID_SLACK_MS, SPEED_LACKING, USAGE_LACKING } from './recount.ts'
import { OtherLists } from './other-lists.ts'
import { providerHealth } from './provider-health.ts'
import { RequestList } from './request-list.ts'
import { UsageSums } from './usage-sums.ts'

/** The thread that answers questions about many records, with a read-only connection of its own. */

type Sums = Record<string, number>

/** Everything that the thread keeps while it runs. */
type Reader = {
  open(): Database
  database: Database
  names: NameCache
  list: RequestList
  others: OtherLists
  jobs: JobList
  sums: UsageSums
}
let reader: Reader

function begin(file: string): void {
  const open = (): Database => new Database(file, { readonly: true })
  const database = open()
  const names = new NameCache(database)
  reader = {
    open,
    database,
    names,
    list: new RequestList(database, names),
    others: new OtherLists(database),
    jobs: new JobList(database, names),
    sums: new UsageSums(database, names),
  }
}

/** A view of everything at one instant, for what is counted again. */
let view: Database | undefined

const answers = {
  begin,
  requests: (filter: RequestFilter, before: string | undefined, limit: number) =>
    reader.list.page(filter, before, limit),
  request: (id: string, scope: Scope) => reader.list.detail(id, scope),
  usage: (question: UsageQuestion) => reader.sums.rows(question),
  speed: (question: SpeedQuestion) => reader.sums.speed(question),
  balances: (...args: Parameters<OtherLists['balances']>) => reader.others.balances(...args),
  transfers: (...args: Parameters<OtherLists['transfers']>) => reader.others.transfers(...args),
  jobs: (...args: Parameters<JobList['page']>) => reader.jobs.page(...args),
  files: (...args: Parameters<OtherLists['files']>) => reader.others.files(...args),
  health: (provider: string, from: number, to: number) =>
    providerHealth(reader.database, reader.names, provider, from, to),
  /** The id of a refusal by its position from the newest. */
  refusalAt: (position: number): Uint8Array | undefined =>
    (
      reader.database.query('SELECT id FROM refusals ORDER BY id DESC LIMIT 1 OFFSET ?').get(position) as {
        id: Uint8Array
      } | null
    )?.id,
  /** Takes a view for `lacking`, and says in which instants there are records. */
  view: (): { first: number; last: number } | undefined => {
    view ??= reader.open()
    view.run('BEGIN')
    const at = (order: string): number | undefined =>
      (
        view!.query(`SELECT created_at AS at FROM generations ORDER BY id ${order} LIMIT 1`).get() as {
          at: number
        } | null
      )?.at
    const [first, last] = [at('ASC'), at('DESC')]
    return first === undefined || last === undefined ? undefined : { first, last }
  },
  /** The sums that the roll-ups of a range of whole hours lack of their records, in the view. */
  lacking: (from: number, to: number): { usage: Sums[]; speeds: Sums[] } => {
    const ids = [firstIdAt(from - ID_SLACK_MS), firstIdAt(to + ID_SLACK_MS)]
    const all = (sql: string): Sums[] => view!.query(sql).all(...ids, from, to) as Sums[]
    return { usage: all(USAGE_LACKING), speeds: all(SPEED_LACKING) }
  },
  endView: (): void => {
    view?.close()
    view = undefined
  },
}

export type Answers = typeof answers

serveThread(answers)
