import { USAGE_BUCKETS } from '../../generation/usage.ts'
import { OUTPUT_TOKENS, USAGE_COLUMNS } from '../usage-columns.ts'

/** Column of generations -> member of a record as it is sent, and its type. */
const COLUMNS: readonly (readonly [column: string, member: string, type: string])[] = [
  ['id', 'id', 'uuid'],
  ['account', 'accountId', 'text'],
  ['key', 'keyId', 'text'],
  ['kind', 'kind', 'text'],
  ['api', 'api', 'text'],
  ['model', 'model', 'text'],
  ['provider', 'provider', 'text'],
  ['client', 'client', 'text'],
  ['finish', 'finish', 'text'],
  ['ending', 'ending', 'text'],
  ['created_at', 'createdAt', 'bigint'],
  ['latency', 'latency', 'bigint'],
  ['duration', 'duration', 'bigint'],
  ['streamed', 'streamed', 'boolean'],
  ['retries', 'retries', 'integer'],
  ['attempts', 'attempts', 'text'],
  ['translation', 'translation', 'text'],
  ['estimated', 'estimated', 'boolean'],
  ['estimation', 'estimation', 'text'],
  ['disputed', 'disputed', 'text'],
  ['price', 'price', 'bigint'],
  ['discount', 'discount', 'integer'],
  ['held', 'held', 'bigint'],
  ['bill', 'bill', 'bigint'],
  ['flows', 'flows', 'bigint'],
  ...USAGE_COLUMNS.map((column, at) => [column, USAGE_BUCKETS[at]!, 'bigint'] as const),
]

const NAMES = COLUMNS.map(([column]) => column).join(', ')

/** The sums of usage_hours: those of columns, and the others. */
const SUMS: readonly (readonly [column: string, sum: string])[] = [
  ['requests', 'count(*)'],
  ...[...USAGE_COLUMNS, 'flows', 'latency', 'duration'].map((name) => [name, `sum(${name})::bigint`] as const),
  ['bill', "coalesce(sum(bill) FILTER (WHERE kind <> 'subscription'), 0)::bigint"],
  ['listed', "coalesce(sum(bill) FILTER (WHERE kind = 'subscription'), 0)::bigint"],
]
/** The columns of usage_hours and of speed_hours that are sums. */
export const USAGE_SUMS: readonly string[] = SUMS.map(([column]) => column)
export const SPEED_SUMS: readonly string[] = ['requests', 'tokens', 'duration']

const added = (table: string, columns: readonly string[]): string =>
  columns.map((column) => `${column} = ${table}.${column} + excluded.${column}`).join(', ')

/** The bucket of a time to the first token, 9 % wide. */
export const SPEED_BUCKET = 'round(8 * ln(greatest(1, latency)::float8) / ln(2::float8))::integer'

const HOUR_MS = 3_600_000

/**
 * All changes of a group of closings, in any order of them, as one statement, which is a transaction.
 *
 * `$1`: the process; nothing is written if it is fenced. `$2`: its shard. `$3`: records. `$4`: transfers, `$5`: windows
 * and `$6`: spends, each with the number `n` of its record. Gives the numbers of the records that are there already, of
 * which nothing is written. Rows that others write, too, are taken in a fixed order.
 */
export const CLOSE = `
  WITH fence AS MATERIALIZED (
    SELECT FROM processes WHERE id = $1::bigint AND ended_at IS NULL FOR KEY SHARE
  ), given AS MATERIALIZED (
    SELECT n, "wasOpen" AS was_open, ${COLUMNS.map(([column, member]) => `"${member}" AS ${column}`).join(', ')}
    FROM jsonb_to_recordset($3::text::jsonb)
      AS r (n integer, "wasOpen" boolean, ${COLUMNS.map(([, member, type]) => `"${member}" ${type}`).join(', ')})
    WHERE $1::bigint IS NULL OR EXISTS (SELECT FROM fence)
  ), inserted AS (
    INSERT INTO generations (${NAMES}) SELECT ${NAMES} FROM given ON CONFLICT (id) DO NOTHING RETURNING id
  ), closed AS MATERIALIZED (
    SELECT * FROM given WHERE id IN (SELECT id FROM inserted)
  ), posted AS (
    INSERT INTO transfers (id, kind, debit, credit, amount, at)
    SELECT id, t.kind, t.debit, t.credit, t.amount, created_at + latency + duration
    FROM jsonb_to_recordset($4::text::jsonb) AS t (n integer, kind text, debit bigint, credit bigint, amount bigint)
      JOIN closed USING (n)
    RETURNING debit, credit, amount
  ), moved AS (
    INSERT INTO book_balances (account, shard, balance)
    SELECT account, $2::bigint, sum(change)::bigint
    FROM (SELECT debit AS account, -amount AS change FROM posted UNION ALL SELECT credit, amount FROM posted) AS m
    GROUP BY account ORDER BY account
    ON CONFLICT (account, shard) DO UPDATE SET ${added('book_balances', ['balance'])}
  ), used AS (
    INSERT INTO quota_windows (account_id, name, shard, started_at, ends_at, used)
    SELECT DISTINCT ON (w.account, w.name) w.account, w.name, $2::bigint, w.start, max(w.end), sum(w.used)::bigint
    FROM jsonb_to_recordset($5::text::jsonb)
      AS w (n integer, account text, name text, start bigint, "end" bigint, used bigint) JOIN closed USING (n)
    GROUP BY w.account, w.name, w.start ORDER BY w.account, w.name, w.start DESC
    ON CONFLICT (account_id, name, shard) DO UPDATE SET started_at = excluded.started_at, ends_at = excluded.ends_at,
      used = excluded.used + CASE WHEN excluded.started_at = quota_windows.started_at THEN quota_windows.used ELSE 0 END
      WHERE excluded.started_at >= quota_windows.started_at
  ), spent AS (
    INSERT INTO key_spends (key_id, shard, since, spent)
    SELECT DISTINCT ON (s.key) s.key, $2::bigint, s.since, sum(s.spent)::bigint
    FROM jsonb_to_recordset($6::text::jsonb) AS s (n integer, key text, since bigint, spent bigint)
      JOIN closed USING (n)
    GROUP BY s.key, s.since ORDER BY s.key, s.since DESC
    ON CONFLICT (key_id, shard) DO UPDATE SET since = excluded.since,
      spent = excluded.spent + CASE WHEN excluded.since = key_spends.since THEN key_spends.spent ELSE 0 END
      WHERE excluded.since >= key_spends.since
  ), ended AS (
    DELETE FROM open_generations WHERE id IN (SELECT id FROM closed WHERE was_open)
  ), rolled AS (
    INSERT INTO usage_hours (hour, account, key, model, provider, ending, shard, ${USAGE_SUMS.join(', ')})
    SELECT created_at / ${HOUR_MS}, account, key, model, coalesce(provider, ''), ending, $2::bigint,
      ${SUMS.map(([, sum]) => sum).join(', ')}
    FROM closed GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (hour, account, key, model, provider, ending, shard) DO UPDATE SET ${added('usage_hours', USAGE_SUMS)}
  ), sped AS (
    INSERT INTO speed_hours (hour, provider, model, bucket, shard, requests, tokens, duration)
    SELECT created_at / ${HOUR_MS}, coalesce(provider, ''), model,
      ${SPEED_BUCKET}, $2::bigint,
      count(*), sum(${OUTPUT_TOKENS})::bigint, sum(duration)::bigint
    FROM closed WHERE streamed AND ending = 'completed' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (hour, provider, model, bucket, shard)
      DO UPDATE SET ${added('speed_hours', SPEED_SUMS)}
  )
  SELECT $1::bigint IS NOT NULL AND NOT EXISTS (SELECT FROM fence) AS "isFenced",
    (SELECT string_agg(n::text, ' ') FROM given WHERE id NOT IN (SELECT id FROM closed)) AS known`
