import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { shownUrl } from '../config/store-settings.ts'
import { hideSecret } from '../log/secrets.ts'
import { usdText } from '../money.ts'
import { postgresStatus, type ServingProcess, sqliteStatus, type StoreStatus } from '../store/status.ts'
import { DATABASE } from '../store/sqlite/store.ts'
import { megabytes } from './amounts.ts'
import { columns, type Given } from './command.ts'
import { instant } from './data.ts'
import { configOf } from './serve.ts'

const ANSWER_MS = 30_000

/** Prints what is stored where, the processes that serve, and the work that waits. Changes nothing. */
export async function showStoreStatus(given: Given): Promise<void> {
  const {
    data,
    store: { postgres },
  } = configOf(given)
  const place = postgres === undefined ? data : shownUrl(postgres.url)
  const status = postgres === undefined ? embeddedStatus(data) : await databaseStatus(postgres.url)
  if (given.on('json')) return console.log(JSON.stringify(jsonOf(place, status)))
  console.log(columns(rowsOf(place, status), ''))
}

function embeddedStatus(folder: string): StoreStatus {
  if (!existsSync(join(folder, DATABASE))) throw new Error(`the data folder ${folder} has no database`)
  return sqliteStatus(folder)
}

function databaseStatus(url: string): Promise<StoreStatus> {
  hideSecret(decodeURIComponent(new URL(url).password))
  return postgresStatus({ url, connectMs: ANSWER_MS, statementMs: ANSWER_MS }).catch((error: Error) => {
    throw new Error(`cannot use the database ${shownUrl(url)} (${error.message})`, { cause: error })
  })
}

function rowsOf(place: string, { engine, schema, bytes, processes, pending, isMoving }: StoreStatus): string[][] {
  const { version, known } = schema
  return [
    ['store', `${engine}, ${place}`],
    ['schema', version === known ? `${version}` : `${version}; this version of Sluice has ${known}`],
    ['size', `database ${megabytes(bytes.database)}, files ${megabytes(bytes.files)}`],
    ...(isMoving
      ? [['moving', 'the move of a data folder into it has not ended: run sluice store migrate again']]
      : []),
    ...(processes.length === 0 ? [['processes', 'none']] : processes.map(rowOf)),
    [
      'pending',
      `${pending.openGenerations} open generations, ${pending.predictions} predictions, ${pending.webhooks} webhooks`,
    ],
  ]
}

const rowOf = ({ id, name, version, startedAt, reportedMs, leased, openGenerations }: ServingProcess): string[] => [
  'process',
  [
    `${id} ${name}`,
    ...(version === null ? [] : [`version ${version}`]),
    ...(startedAt === null ? [] : [`since ${instant(startedAt)}`, `reported ${(reportedMs / 1000).toFixed(1)} s ago`]),
    `${usdText(leased)} USD leased`,
    `${openGenerations} open generations`,
  ].join(', '),
]

const jsonOf = (place: string, { engine, schema, bytes, processes, pending, isMoving }: StoreStatus): object => ({
  engine,
  place,
  schema,
  bytes,
  moving: isMoving,
  processes: processes.map(({ id, name, version, startedAt, reportedMs, leased, openGenerations }) => ({
    id,
    name,
    version,
    started_at: instant(startedAt),
    reported_ms_ago: reportedMs,
    leased_usd: usdText(leased),
    open_generations: openGenerations,
  })),
  pending: {
    open_generations: pending.openGenerations,
    predictions: pending.predictions,
    webhooks: pending.webhooks,
  },
})
