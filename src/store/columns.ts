import type { Account, StoredKey } from './accounts.ts'
import type { StoredBodies } from './bodies.ts'
import type { StoredChange } from './changes.ts'
import type { StoredFile, StoredOutput } from './files.ts'
import type { StoredAnswer } from './idempotency.ts'
import type { Session, SignInLink, User } from './people.ts'
import type { PredictionChange, WebhookDelivery } from './predictions.ts'

/** SQL that selects columns under the names that they have here. */
const columnsOf = <Row>(...names: (keyof Row & string)[]): string => names.map(columnOf).join(', ')

/** Both databases take the name in quotes. In those, a column that SQLite does not know would be a text. */
function columnOf(name: string): string {
  const column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return column === name ? column : `${column} AS "${name}"`
}

export const ACCOUNT_COLUMNS = columnsOf<Account>('id', 'name', 'status', 'createdAt', 'discount', 'memberRequests')

export const KEY_COLUMNS = [
  columnsOf<StoredKey>('id', 'accountId', 'kind', 'hash', 'prefix', 'last4', 'name', 'createdAt', 'expiresAt'),
  columnsOf<StoredKey>('revokedAt', 'requestsPerMinute', 'models', 'limitPeriod', 'idempotency', 'role', 'scope'),
  columnsOf<StoredKey>('limitSince', 'createdBy', 'source'),
  // Integers of databases arrive in JavaScript as doubles.
  'CAST(spend_limit AS text) AS "limit"',
].join(', ')

export const USER_COLUMNS = columnsOf<User>('id', 'name', 'email', 'password', 'createdAt', 'joinedAt')

const SESSION = ['id', 'userId', 'hash', 'isStale', 'createdAt', 'seenAt', 'idleMs', 'endsAt', 'address'] as const
export const SESSION_COLUMNS = columnsOf<Session>(...SESSION, 'client')

export const LINK_COLUMNS = columnsOf<SignInLink>('hash', 'userId', 'createdAt', 'expiresAt')

export const CHANGE_COLUMNS = [
  columnsOf<StoredChange>('position', 'at', 'actor', 'actorName', 'address', 'action', 'target', 'accountId'),
  columnsOf<StoredChange>('before', 'after', 'digest'),
].join(', ')

export const FILE_COLUMNS = [
  columnsOf<StoredFile>('id', 'accountId', 'blob', 'filename', 'purpose', 'bytes', 'mediaType', 'sha256', 'metadata'),
  columnsOf<StoredFile>('createdAt', 'expiresAt'),
].join(', ')

export const OUTPUT_COLUMNS = columnsOf<StoredOutput>('token', 'accountId', 'blob', 'mediaType', 'bytes', 'expiresAt')

const PREDICTION = ['id', 'accountId', 'model', 'status', 'createdAt', 'startedAt', 'completedAt', 'state'] as const
export const PREDICTION_COLUMNS = columnsOf<PredictionChange>(...PREDICTION)

const DELIVERY = ['id', 'accountId', 'predictionId', 'url', 'body', 'attempts', 'nextAt'] as const
export const DELIVERY_COLUMNS = columnsOf<WebhookDelivery>(...DELIVERY)

const ANSWER = ['accountId', 'key', 'digest', 'createdAt', 'expiresAt', 'status', 'headers', 'body'] as const
export const ANSWER_COLUMNS = columnsOf<StoredAnswer>(...ANSWER)

export const BODIES_COLUMNS = [
  columnsOf<StoredBodies>('id', 'accountId', 'keyId', 'segment', 'length', 'expiresAt'),
  // Its name is a word of SQL, and `parts` are JSON.
  ...['"offset"', 'CAST(parts AS text) AS parts'],
].join(', ')

/** The number and the bytes of all contents. */
export const CONTENT_USAGE = `SELECT count(*) AS files, CAST(coalesce(sum(bytes), 0) AS bigint) AS bytes
  FROM (SELECT bytes FROM files UNION ALL SELECT bytes FROM outputs) AS contents`
