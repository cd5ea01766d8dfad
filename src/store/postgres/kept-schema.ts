import { KEPT_KINDS, type KeptKind } from '../kept.ts'

const TABLES = `
  CREATE TABLE responses (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts (id),
    id text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    -- JSON with an empty array in place of the output; empty until all items of a long response are written.
    response text NOT NULL,
    upstream text,
    bytes bigint NOT NULL,
    UNIQUE (account_id, id)
  );
  CREATE INDEX responses_by_expiry ON responses (expires_at);

  CREATE TABLE response_items (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    response_id text COLLATE "C" NOT NULL,
    id text COLLATE "C",
    is_output boolean NOT NULL,
    expires_at bigint NOT NULL,
    item text NOT NULL,
    FOREIGN KEY (account_id, response_id) REFERENCES responses (account_id, id) ON DELETE CASCADE
  );
  CREATE INDEX response_items_by_id ON response_items (account_id, md5(id), position) WHERE id IS NOT NULL;
  CREATE INDEX response_items_by_response ON response_items (account_id, response_id);

  CREATE TABLE files (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    blob text COLLATE "C" NOT NULL UNIQUE,
    filename text NOT NULL,
    purpose text,
    bytes bigint NOT NULL CHECK (bytes >= 0),
    media_type text NOT NULL,
    sha256 text NOT NULL,
    metadata text,
    created_at bigint NOT NULL,
    expires_at bigint
  );
  CREATE INDEX files_of_account ON files (account_id, created_at, id);
  CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

  CREATE TABLE outputs (
    token text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    blob text COLLATE "C" NOT NULL UNIQUE,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    expires_at bigint NOT NULL
  );
  CREATE INDEX outputs_by_expiry ON outputs (expires_at);

  -- Blobs whose row was deleted, until their bytes are gone.
  CREATE TABLE removed_blobs (
    name text COLLATE "C" PRIMARY KEY,
    tries integer NOT NULL,
    due_at bigint NOT NULL
  );
  CREATE INDEX removed_blobs_by_time ON removed_blobs (due_at);

  CREATE TABLE predictions (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    model text NOT NULL,
    status text NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    -- JSON: the result, and where it runs.
    state text NOT NULL,
    bytes bigint NOT NULL,
    -- The process that runs it, and the request of a client of another one to cancel it.
    process bigint,
    is_unwanted boolean NOT NULL DEFAULT false,
    -- It is one of those of its account that run at the same time.
    has_turn boolean NOT NULL DEFAULT false
  );
  CREATE INDEX predictions_of_account ON predictions (account_id, id);
  CREATE INDEX predictions_under_way ON predictions (id) WHERE completed_at IS NULL;
  CREATE INDEX predictions_unwanted ON predictions (process) WHERE completed_at IS NULL AND is_unwanted;
  CREATE INDEX predictions_unfinished ON predictions (account_id) WHERE completed_at IS NULL;
  CREATE INDEX predictions_by_completion ON predictions (completed_at) WHERE completed_at IS NOT NULL;

  -- Inputs as JSON, apart from the rest because they may be large and never change.
  CREATE TABLE prediction_inputs (
    id text COLLATE "C" PRIMARY KEY,
    input text NOT NULL
  );

  CREATE TABLE webhook_deliveries (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    prediction_id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    body text NOT NULL,
    attempts bigint NOT NULL,
    next_at bigint NOT NULL,
    -- The process that makes the call, and the time after which another one may.
    claimed_by bigint,
    claimed_until timestamptz
  );
  CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (next_at);

  -- Signed reasoning that providers require back after tool calls; sealed is encrypted.
  CREATE TABLE reasoning (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    expires_at bigint NOT NULL,
    bytes bigint NOT NULL,
    sealed bytea NOT NULL,
    UNIQUE (account_id, key)
  );
  CREATE INDEX reasoning_by_expiry ON reasoning (expires_at);
  CREATE INDEX reasoning_of_account ON reasoning (account_id, expires_at);

  -- Answers to requests with an Idempotency-Key. key and digest are hashes of the key's text and of the request.
  CREATE TABLE idempotent_answers (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    key bytea NOT NULL CHECK (length(key) = 32),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status integer NOT NULL,
    headers text NOT NULL,
    bytes bigint NOT NULL,
    body bytea NOT NULL,
    UNIQUE (account_id, key)
  );
  CREATE INDEX idempotent_answers_by_expiry ON idempotent_answers (expires_at);
  CREATE INDEX idempotent_answers_of_account ON idempotent_answers (account_id, created_at);
  CREATE INDEX idempotent_answers_by_time ON idempotent_answers (created_at);

  -- Ids of objects that providers store, each with the account to which a response named it.
  CREATE TABLE issued_ids (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    provider text NOT NULL,
    expires_at bigint NOT NULL,
    UNIQUE (account_id, id)
  );
  CREATE INDEX issued_ids_by_expiry ON issued_ids (expires_at);
  CREATE INDEX issued_ids_of_account ON issued_ids (account_id, expires_at);

  -- Number and bytes of what each account has of a kind: the sum over shards. Those of all accounts have the id ''.
  CREATE TABLE kept (
    account_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    shard integer NOT NULL,
    things bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (account_id, kind, shard)
  ) WITH (fillfactor = 60);

`

/** Parts of a total, so that processes which change it at the same time seldom wait for each other. */
const SHARDS = 16

const shard = `pg_backend_pid() % ${SHARDS}`

/** Adds the rows of a transition table to the totals, or takes them away. */
const addRows = (rows: string, sign: '' | '-'): string => `
    INSERT INTO kept AS k (account_id, kind, shard, things, bytes)
      SELECT owner, TG_TABLE_NAME, ${shard}, ${sign}count(*), ${sign}sum(bytes)
      FROM (SELECT account_id AS owner, bytes FROM ${rows} UNION ALL SELECT '', bytes FROM ${rows}) AS r
      GROUP BY owner ORDER BY owner
      ON CONFLICT (account_id, kind, shard)
        DO UPDATE SET things = k.things + excluded.things, bytes = k.bytes + excluded.bytes;`

const triggersOf = (table: KeptKind): string => `
  CREATE TRIGGER kept_added AFTER INSERT ON ${table} REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON ${table} REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON ${table} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();`

/** The things that are kept for accounts, and their totals. */
export const KEPT = `${TABLES}
  CREATE FUNCTION kept_added() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN ${addRows('added', '')}
    RETURN NULL;
  END $$;
  CREATE FUNCTION kept_removed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN ${addRows('removed', '-')}
    RETURN NULL;
  END $$;
  CREATE FUNCTION kept_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN ${addRows('removed', '-')}${addRows('added', '')}
    RETURN NULL;
  END $$;
  ${KEPT_KINDS.map(triggersOf).join('')}
`
