import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LimitPeriod } from '../config/terms.ts'
import { Connection, int64 } from './connection.ts'
import { FileTables } from './file-tables.ts'
import { LedgerTables } from './ledger-tables.ts'
import { lockFolder } from './lock.ts'
import { PredictionTables } from './prediction-tables.ts'
import { ReasoningTable } from './reasoning-tables.ts'
import type {
  Account,
  AccountStatus,
  BackgroundWork,
  Closing,
  FileQuery,
  FileUse,
  GenerationRecord,
  Json,
  LedgerState,
  OpenGeneration,
  Operation,
  PostedTransfer,
  PredictionChange,
  ReasoningUse,
  ResponseToSave,
  Store,
  StoredFile,
  StoredKey,
  StoredOutput,
  StoredPrediction,
  StoredReasoning,
  StoredResponse,
  Subscription,
  WebhookDelivery,
} from './store.ts'

/** A change made by another process is seen within this time; a revoked key must stop working within two seconds. */
const WATCH_INTERVAL_MS = 1000
/** Rows removed in one transaction, so that a purge never stops the event loop for long. */
const PURGE_BATCH = 200

export type SqliteOptions = {
  /** Created, for this user only, when it does not exist. */
  folder: string
  /** A server takes the folder for itself; the command line does not, and may work beside a server. */
  exclusive: boolean
  now?: () => number
}

type KeyRow = Omit<StoredKey, 'models' | 'limit' | 'limitPeriod'> & {
  models: string | null
  limit: string | null
  limitPeriod: LimitPeriod | null
}

/** The store inside: SQLite in one file of the data folder. */
export class SqliteStore implements Store {
  readonly #connection: Connection
  readonly #ledger: LedgerTables
  readonly #files: FileTables
  readonly #predictions: PredictionTables
  readonly #reasoning: ReasoningTable
  readonly #lock: { release(): void } | undefined
  readonly #now: () => number
  readonly #listeners: (() => Promise<void>)[] = []
  #watching: ReturnType<typeof setInterval> | undefined
  /** The version of the file of which every listener has heard. */
  #heard: number

  /** Fails with a plain Error, worded for the operator, when the folder cannot be used. */
  constructor({ folder, exclusive, now = Date.now }: SqliteOptions) {
    this.#now = now
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      this.#lock = exclusive ? lockFolder(folder) : undefined
      this.#connection = new Connection(join(folder, 'sluice.sqlite'))
      this.#ledger = new LedgerTables(this.#connection)
      this.#files = new FileTables(this.#connection)
      this.#predictions = new PredictionTables(this.#connection)
      this.#reasoning = new ReasoningTable(this.#connection)
      this.#heard = this.#connection.dataVersion()
    } catch (error) {
      this.#lock?.release()
      throw worded(folder, error)
    }
  }

  async accounts(): Promise<Account[]> {
    return this.#connection.all<Account>(
      'SELECT id, name, status, created_at AS createdAt, discount FROM accounts ORDER BY created_at, id',
    )
  }

  async keys(): Promise<StoredKey[]> {
    const rows = this.#connection.all<KeyRow>(`
      SELECT id, account_id AS accountId, kind, hash, prefix, last4, name, created_at AS createdAt, expires_at AS expiresAt,
        revoked_at AS revokedAt, requests_per_minute AS requestsPerMinute, models, CAST(spend_limit AS TEXT) AS "limit", limit_period AS limitPeriod
      FROM keys ORDER BY created_at, id`)
    return rows.map(({ models, limit, ...row }) => ({
      ...row,
      models: models === null ? null : (JSON.parse(models) as string[]),
      limit: limit === null ? null : BigInt(limit),
    }))
  }

  async addAccount(
    account: Account,
    subscription?: Subscription,
    operations: readonly Operation[] = [],
  ): Promise<boolean> {
    let added = false
    await this.#connection.commit(() => {
      const { changes } = this.#connection.run(
        'INSERT INTO accounts (id, name, status, created_at, discount) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING',
        account.id,
        account.name,
        account.status,
        account.createdAt,
        account.discount,
      )
      added = changes > 0
      if (added) this.#ledger.beginAccount(subscription, operations)
    })
    return added
  }

  async addKey(key: StoredKey): Promise<void> {
    await this.#connection.commit(() => {
      this.#connection.run(
        `INSERT INTO keys (id, account_id, kind, hash, prefix, last4, name, created_at, expires_at, revoked_at, requests_per_minute, models,
           spend_limit, limit_period)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        key.id,
        key.accountId,
        key.kind,
        key.hash,
        key.prefix,
        key.last4,
        key.name,
        key.createdAt,
        key.expiresAt,
        key.revokedAt,
        key.requestsPerMinute,
        key.models === null ? null : JSON.stringify(key.models),
        key.limit === null ? null : int64(key.limit),
        key.limitPeriod,
      )
    })
  }

  async revokeKey(id: string, at: number): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL', at, id),
    )
  }

  async expireKey(id: string, at: number): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run(
        'UPDATE keys SET expires_at = ? WHERE id = ? AND (expires_at IS NULL OR expires_at > ?)',
        at,
        id,
        at,
      ),
    )
  }

  async setAccountStatus(id: string, status: AccountStatus, before?: AccountStatus): Promise<boolean> {
    let isSet = false
    await this.#connection.commit(() => {
      isSet =
        this.#connection.run(
          'UPDATE accounts SET status = ? WHERE id = ? AND status = coalesce(?, status)',
          status,
          id,
          before ?? null,
        ).changes > 0
    })
    return isSet
  }

  async setAccountDiscount(id: string, discount: number): Promise<void> {
    await this.#connection.commit(() =>
      this.#connection.run('UPDATE accounts SET discount = ? WHERE id = ?', discount, id),
    )
  }

  async setting(name: string): Promise<string | undefined> {
    return this.#connection.one<{ value: string }>('SELECT value FROM settings WHERE name = ?', name)?.value
  }

  async settleSetting(name: string, value: string): Promise<string> {
    await this.#connection.commit(() =>
      this.#connection.run('INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING', name, value),
    )
    return (await this.setting(name)) ?? value
  }

  async saveResponse(
    accountId: string,
    { id, response, inputItems, expiresAt, upstream }: ResponseToSave,
  ): Promise<void> {
    const responseText = JSON.stringify(response)
    const inputText = JSON.stringify(inputItems)
    await this.#connection.commit(() => {
      this.#connection.run('DELETE FROM responses WHERE account_id = ? AND id = ?', accountId, id)
      this.#connection.run(
        'INSERT INTO responses (account_id, id, created_at, expires_at, response, input, upstream) VALUES (?, ?, ?, ?, ?, ?, ?)',
        accountId,
        id,
        this.#now(),
        expiresAt,
        responseText,
        inputText,
        upstream === undefined ? null : JSON.stringify(upstream),
      )
      this.#addItems(accountId, id, expiresAt, [...inputItems, ...outputOf(response)])
    })
  }

  #addItems(accountId: string, responseId: string, expiresAt: number, items: readonly unknown[]): void {
    for (const item of items.filter(hasOwnId)) {
      this.#connection.run(
        'INSERT INTO response_items (account_id, response_id, id, expires_at, item) VALUES (?, ?, ?, ?, ?)',
        accountId,
        responseId,
        item.id,
        expiresAt,
        JSON.stringify(item),
      )
    }
  }

  async endResponse(accountId: string, id: string, response: Json): Promise<void> {
    const responseText = JSON.stringify(response)
    await this.#connection.commit(() => {
      const ended = this.#connection.one<{ expiresAt: number }>(
        'UPDATE responses SET response = ?, upstream = NULL WHERE account_id = ? AND id = ? AND upstream IS NOT NULL RETURNING expires_at AS expiresAt',
        responseText,
        accountId,
        id,
      )
      if (ended !== undefined) this.#addItems(accountId, id, ended.expiresAt, outputOf(response))
    })
  }

  async findResponse(accountId: string, id: string): Promise<StoredResponse | undefined> {
    const row = this.#connection.one<{
      response: string
      input: string
      upstream: string | null
      createdAt: number
      expiresAt: number
    }>(
      `SELECT response, input, upstream, created_at AS createdAt, expires_at AS expiresAt FROM responses
       WHERE account_id = ? AND id = ? AND expires_at > ?`,
      accountId,
      id,
      this.#now(),
    )
    if (row === undefined) return undefined
    const { response, input, upstream, createdAt, expiresAt } = row
    const work = upstream === null ? {} : { upstream: JSON.parse(upstream) as BackgroundWork }
    return {
      id,
      response: JSON.parse(response) as Json,
      inputItems: JSON.parse(input) as unknown[],
      createdAt,
      expiresAt,
      ...work,
    }
  }

  async findItem(accountId: string, itemId: string): Promise<Json | undefined> {
    const row = this.#connection.one<{ item: string }>(
      'SELECT item FROM response_items WHERE account_id = ? AND id = ? AND expires_at > ? ORDER BY position DESC LIMIT 1',
      accountId,
      itemId,
      this.#now(),
    )
    return row === undefined ? undefined : (JSON.parse(row.item) as Json)
  }

  async deleteResponse(accountId: string, id: string): Promise<boolean> {
    let deleted = false
    await this.#connection.commit(() => {
      // What has expired is unknown already: deleting it must answer so, whether or not a purge has been by.
      const { changes } = this.#connection.run(
        'DELETE FROM responses WHERE account_id = ? AND id = ? AND expires_at > ?',
        accountId,
        id,
        this.#now(),
      )
      deleted = changes > 0
    })
    return deleted
  }

  async purgeExpired(now: number): Promise<number> {
    for (let purged = 0; ; ) {
      let batch = 0
      await this.#connection.commit(() => {
        batch = this.#connection.all(
          'DELETE FROM responses WHERE position IN (SELECT position FROM responses WHERE expires_at <= ? LIMIT ?) RETURNING position',
          now,
          PURGE_BATCH,
        ).length
      })
      purged += batch
      if (batch < PURGE_BATCH) return purged
    }
  }

  keepReasoning(reasoning: StoredReasoning, toFree: number): Promise<void> {
    return this.#reasoning.add(reasoning, toFree)
  }

  findReasoning(
    accountId: string,
    keys: readonly string[],
    mostBytes: number,
    now: number,
  ): Promise<Map<string, Uint8Array>> {
    return this.#reasoning.find(accountId, keys, mostBytes, now)
  }

  reasoningUse(): Promise<ReasoningUse[]> {
    return this.#reasoning.use()
  }

  purgeReasoning(now: number): Promise<void> {
    return this.#reasoning.purge(now)
  }

  addFile(file: StoredFile, most: FileUse): Promise<boolean> {
    return this.#files.add(file, most)
  }

  findFile(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    return this.#files.find(accountId, id, now)
  }

  files(accountId: string, query: FileQuery): Promise<StoredFile[]> {
    return this.#files.page(accountId, query)
  }

  fileUse(accountId: string, now: number): Promise<FileUse> {
    return this.#files.use(accountId, now)
  }

  deleteFile(accountId: string, id: string, now: number): Promise<StoredFile | undefined> {
    return this.#files.delete(accountId, id, now)
  }

  addOutput(output: StoredOutput): Promise<void> {
    return this.#files.addOutput(output)
  }

  findOutput(token: string, now: number): Promise<StoredOutput | undefined> {
    return this.#files.findOutput(token, now)
  }

  purgeExpiredFiles(now: number): Promise<string[]> {
    return this.#files.purge(now)
  }

  knownBlobs(blobs: readonly string[]): Promise<Set<string>> {
    return this.#files.knownBlobs(blobs)
  }

  addPrediction(prediction: StoredPrediction): Promise<void> {
    return this.#predictions.add(prediction)
  }

  findPrediction(accountId: string, id: string): Promise<StoredPrediction | undefined> {
    return this.#predictions.find(accountId, id)
  }

  predictions(accountId: string, limit: number, before?: string): Promise<StoredPrediction[]> {
    return this.#predictions.page(accountId, limit, before)
  }

  predictionsUnderWay(after?: string): Promise<PredictionChange[]> {
    return this.#predictions.underWay(after)
  }

  changePrediction(change: PredictionChange, deliveries: readonly WebhookDelivery[] = []): Promise<boolean> {
    return this.#predictions.change(change, deliveries)
  }

  purgePredictions(endedBefore: number): Promise<number> {
    return this.#predictions.purge(endedBefore)
  }

  dueDeliveries(now: number, limit: number, except?: readonly string[]): Promise<WebhookDelivery[]> {
    return this.#predictions.dueDeliveries(now, limit, except)
  }

  changeDelivery(id: string, attempts: number, nextAt: number | undefined): Promise<void> {
    return this.#predictions.changeDelivery(id, attempts, nextAt)
  }

  ledgerState(): Promise<LedgerState> {
    return this.#ledger.state()
  }

  closeGeneration(closing: Closing, committed?: () => void): Promise<void> {
    return this.#ledger.closeGeneration(closing, committed)
  }

  keepOpen(open: readonly OpenGeneration[]): Promise<void> {
    return this.#ledger.keepOpen(open)
  }

  openGenerations(): Promise<OpenGeneration[]> {
    return this.#ledger.openGenerations()
  }

  findGeneration(accountId: string, id: string): Promise<GenerationRecord | undefined> {
    return this.#ledger.findGeneration(accountId, id)
  }

  post(operation: Operation): Promise<boolean> {
    return this.#ledger.post(operation)
  }

  setSubscription(subscription: Subscription, before?: Subscription): Promise<void> {
    return this.#ledger.setSubscription(subscription, before)
  }

  snapshot<T>(read: () => Promise<T>): Promise<T> {
    return this.#connection.longSnapshot(read)
  }

  generations(after: string | undefined, limit: number): Promise<GenerationRecord[]> {
    return this.#ledger.generations(after, limit)
  }

  transfers(after: { reference: string; kind: string } | undefined, limit: number): Promise<PostedTransfer[]> {
    return this.#ledger.transfers(after, limit)
  }

  watch(listener: () => Promise<void>): void {
    this.#listeners.push(listener)
    if (this.#watching !== undefined) return
    let busy = false
    this.#watching = setInterval(async () => {
      if (busy) return
      busy = true
      await this.#tell().catch(() => {
        // What is in memory stays in force; the next round tries again.
      })
      busy = false
    }, WATCH_INTERVAL_MS)
    this.#watching.unref()
  }

  /**
   * Tells every listener of what other processes changed; all of them again in the next round when one of them fails.
   */
  async #tell(): Promise<void> {
    const version = this.#connection.dataVersion()
    if (version === this.#heard) return
    const told = await Promise.allSettled(this.#listeners.map((listener) => listener()))
    if (told.every(({ status }) => status === 'fulfilled')) this.#heard = version
  }

  async close(): Promise<void> {
    clearInterval(this.#watching)
    await this.#connection.close()
    this.#lock?.release()
  }
}

/** What the system says names no file, or not the folder that the operator knows; what we say is worded already. */
const worded = (folder: string, error: unknown): unknown =>
  typeof (error as { code?: unknown }).code === 'string'
    ? new Error(
        `the data folder ${folder} cannot be used (${(error as Error).message}); it must be a folder that this user may write in`,
        { cause: error },
      )
    : error

const outputOf = ({ output }: Json): unknown[] => (Array.isArray(output) ? output : [])

/** A reference has the id of the item that it stands for: kept as an item, it would hide the real one. */
const hasOwnId = (item: unknown): item is Json & { id: string } =>
  typeof item === 'object' &&
  item !== null &&
  typeof (item as Json).id === 'string' &&
  (item as Json).type !== 'item_reference'
