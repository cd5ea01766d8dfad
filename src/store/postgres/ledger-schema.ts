import { accountTrigger } from './account-changes.ts'
import { FIRST_BUCKETS } from './added-columns.ts'

const BUCKETS = FIRST_BUCKETS.map((column) => `${column} bigint NOT NULL,`).join('\n    ')

/** Rows that change often keep free space in their pages, so that a new version of a row needs no index entry. */
const OFTEN_CHANGED = 'WITH (fillfactor = 60)'

/**
 * The ledger: records, the book, plans, windows, spending of keys. Money in nano-USD, flows in micro-flows, discounts
 * in basis points, instants in Unix milliseconds.
 *
 * Records and their transfers are partitioned by the month in which the id begins: `partitions.ts` makes the
 * partitions. Balances, windows and spends are sums over shards: 0 is the common part, any other shard is that of a row
 * of `processes`, and may be negative.
 */
export const LEDGER = `
  -- The rates of one model at one time. Equal rates share a row.
  CREATE TABLE prices (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    rates text COLLATE "C" NOT NULL
  );
  -- Entries of an index have a limit of length.
  CREATE UNIQUE INDEX prices_once ON prices (version, model, md5(rates));

  CREATE TABLE generations (
    id uuid PRIMARY KEY,
    created_at bigint NOT NULL,
    latency bigint NOT NULL,
    duration bigint NOT NULL,
    ${BUCKETS}
    price bigint,
    held bigint NOT NULL CHECK (held >= 0),
    bill bigint NOT NULL CHECK (bill >= 0),
    flows bigint NOT NULL CHECK (flows >= 0),
    discount integer NOT NULL,
    retries integer NOT NULL,
    streamed boolean NOT NULL,
    estimated boolean NOT NULL,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    api text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    provider text COLLATE "C",
    client text COLLATE "C",
    finish text COLLATE "C" NOT NULL,
    ending text COLLATE "C" NOT NULL,
    estimation text,
    attempts text,
    translation text,
    disputed text
  ) PARTITION BY RANGE (id);
  CREATE TABLE generations_other PARTITION OF generations DEFAULT;

  -- process: the row of processes that has it in flight; null for none.
  CREATE TABLE open_generations (
    id uuid PRIMARY KEY,
    process bigint,
    account_id text COLLATE "C" NOT NULL,
    state text NOT NULL
  ) ${OFTEN_CHANGED};
  CREATE INDEX open_generations_of_process ON open_generations (process);

  CREATE TABLE book_accounts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    UNIQUE (owner, kind)
  );

  CREATE TABLE book_balances (
    account bigint NOT NULL REFERENCES book_accounts (id),
    shard bigint NOT NULL,
    balance bigint NOT NULL,
    PRIMARY KEY (account, shard)
  ) ${OFTEN_CHANGED};
  CREATE INDEX book_balances_of_shard ON book_balances (shard) WHERE shard <> 0;

  -- The transfers of generations, and of operations whose reference looks like the id of one.
  CREATE TABLE transfers (
    id uuid NOT NULL,
    debit bigint NOT NULL,
    credit bigint NOT NULL CHECK (credit <> debit),
    amount bigint NOT NULL CHECK (amount > 0),
    at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    note text,
    PRIMARY KEY (id, kind)
  ) PARTITION BY RANGE (id);
  CREATE TABLE transfers_other PARTITION OF transfers DEFAULT;

  -- The transfers of operations: people make them, so that there are few.
  CREATE TABLE operations (
    reference text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    debit bigint NOT NULL,
    credit bigint NOT NULL CHECK (credit <> debit),
    amount bigint NOT NULL CHECK (amount > 0),
    at bigint NOT NULL,
    note text,
    PRIMARY KEY (reference, kind)
  );
  CREATE INDEX operations_by_time ON operations (at);

  CREATE FUNCTION operation_posted() RETURNS trigger LANGUAGE plpgsql AS $function$
  BEGIN
    PERFORM account_changed(owner) FROM book_accounts
      WHERE id IN (NEW.debit, NEW.credit) AND kind IN ('credit', 'bonus');
    RETURN NULL;
  END
  $function$;
  CREATE CONSTRAINT TRIGGER operations_changed AFTER INSERT ON operations
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION operation_posted();

  CREATE TABLE subscriptions (
    account_id text COLLATE "C" PRIMARY KEY REFERENCES accounts (id),
    tier text NOT NULL,
    anchor bigint NOT NULL,
    period_start bigint NOT NULL,
    period_end bigint NOT NULL,
    renews boolean NOT NULL,
    next_tier text,
    reset_requested boolean NOT NULL DEFAULT false,
    repeated_until bigint
  );
  ${accountTrigger('subscriptions', 'account_id')}

  CREATE TABLE quota_windows (
    account_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    shard bigint NOT NULL,
    started_at bigint NOT NULL,
    ends_at bigint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (account_id, name, shard)
  ) ${OFTEN_CHANGED};
  CREATE INDEX quota_windows_of_shard ON quota_windows (shard) WHERE shard <> 0;

  CREATE TABLE key_spends (
    key_id text COLLATE "C" NOT NULL,
    shard bigint NOT NULL,
    since bigint NOT NULL,
    spent bigint NOT NULL,
    PRIMARY KEY (key_id, shard)
  ) ${OFTEN_CHANGED};
  CREATE INDEX key_spends_of_shard ON key_spends (shard) WHERE shard <> 0;
`

/** Roll-ups of generations and refusals, and the refusals themselves. An empty text means none. */
export const ROLL_UPS = `
  -- Sums of the generations of one hour (since 1970, of created_at), by the process that wrote them, so that none waits
  -- for another. bill: of pay-as-you-go keys; listed: the list price of what subscriptions used.
  CREATE TABLE usage_hours (
    hour bigint NOT NULL,
    shard bigint NOT NULL,
    requests bigint NOT NULL,
    ${BUCKETS}
    bill bigint NOT NULL,
    listed bigint NOT NULL,
    flows bigint NOT NULL,
    latency bigint NOT NULL,
    duration bigint NOT NULL,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL,
    ending text COLLATE "C" NOT NULL,
    PRIMARY KEY (hour, account, key, model, provider, ending, shard)
  ) ${OFTEN_CHANGED};
  CREATE INDEX usage_hours_of_shards ON usage_hours (hour) WHERE shard <> 0;

  -- Completed streams by the time to their first token: bucket is round(8 log2 ms). tokens in duration ms after it.
  CREATE TABLE speed_hours (
    hour bigint NOT NULL,
    shard bigint NOT NULL,
    bucket integer NOT NULL,
    requests bigint NOT NULL,
    tokens bigint NOT NULL,
    duration bigint NOT NULL,
    provider text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    PRIMARY KEY (hour, provider, model, bucket, shard)
  ) ${OFTEN_CHANGED};
  CREATE INDEX speed_hours_of_shards ON speed_hours (hour) WHERE shard <> 0;

  -- Requests that never became a generation.
  CREATE TABLE refusals (
    id uuid PRIMARY KEY,
    at bigint NOT NULL,
    status integer NOT NULL,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    param text,
    message text NOT NULL
  );

  CREATE TABLE refusal_hours (
    hour bigint NOT NULL,
    requests bigint NOT NULL,
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    PRIMARY KEY (hour, account, key, code)
  ) ${OFTEN_CHANGED};
`
