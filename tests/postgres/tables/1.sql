
  CREATE TABLE processes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    -- The number of its last transaction, by which it knows what became of one whose acknowledgement was lost.
    last_write bigint NOT NULL DEFAULT 0,
    -- The process that takes over what this one had open; set when it is declared dead, and until all is taken over.
    heir bigint
  );
  CREATE INDEX processes_alive ON processes (heartbeat_at) WHERE ended_at IS NULL;

  
  CREATE SEQUENCE change_positions;
  CREATE TABLE account_changes (
    account_id text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL UNIQUE
  );
  CREATE TABLE table_changes (
    name text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
  );

  CREATE FUNCTION account_changed(changed text) RETURNS void LANGUAGE plpgsql AS $function$
  BEGIN
    PERFORM pg_advisory_xact_lock(7158420332);
    INSERT INTO account_changes (account_id, position) VALUES (changed, nextval('change_positions'))
      ON CONFLICT (account_id) DO UPDATE SET position = excluded.position;
    NOTIFY sluice_changes;
  END
  $function$;

  CREATE FUNCTION account_row_changed() RETURNS trigger LANGUAGE plpgsql AS $function$
  BEGIN
    PERFORM account_changed(to_jsonb(NEW) ->> TG_ARGV[0]);
    RETURN NULL;
  END
  $function$;

  CREATE FUNCTION table_changed() RETURNS trigger LANGUAGE plpgsql AS $function$
  BEGIN
    PERFORM pg_advisory_xact_lock(7158420332);
    INSERT INTO table_changes (name, position) VALUES (TG_TABLE_NAME, nextval('change_positions'))
      ON CONFLICT (name) DO UPDATE SET position = excluded.position;
    NOTIFY sluice_changes;
    RETURN NULL;
  END
  $function$;

  CREATE TABLE accounts (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL UNIQUE,
    status text NOT NULL CHECK (status IN ('healthy', 'monitored', 'abusive', 'suspended', 'banned')),
    created_at bigint NOT NULL,
    discount integer NOT NULL CHECK (discount BETWEEN 0 AND 10000),
    -- The requests of the account that its members see: those of their own keys, or of all.
    member_requests text NOT NULL CHECK (member_requests IN ('own', 'all'))
  );
  
  CREATE CONSTRAINT TRIGGER accounts_changed AFTER INSERT OR UPDATE ON accounts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION account_row_changed('id');

  CREATE TABLE keys (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL REFERENCES accounts (id),
    kind text NOT NULL CHECK (kind IN ('pay-as-you-go', 'subscription', 'management')),
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix text NOT NULL,
    last4 text NOT NULL,
    name text,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    requests_per_minute bigint CHECK (requests_per_minute > 0),
    models text,
    spend_limit bigint CHECK (spend_limit >= 0),
    limit_period text CHECK (limit_period IN ('day', 'week', 'month')),
    -- Requests before it may not count in the spending.
    limit_since bigint,
    idempotency boolean NOT NULL,
    -- Without a role, a management key is a viewer of its account.
    role text,
    scope text,
    created_by text,
    source text
  );
  CREATE INDEX keys_of_account ON keys (account_id);
  CREATE INDEX keys_by_creator ON keys (created_by) WHERE created_by IS NOT NULL;
  CREATE INDEX keys_by_time ON keys (created_at, id);
  
  CREATE CONSTRAINT TRIGGER keys_changed AFTER INSERT OR UPDATE ON keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION account_row_changed('account_id');

  -- The last use of each key, apart from the keys, whose changes are watched.
  CREATE TABLE key_uses (
    key_id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
  );

  CREATE TABLE users (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    email text UNIQUE,
    password text,
    created_at bigint NOT NULL,
    joined_at bigint
  );

  CREATE TABLE user_roles (
    user_id text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    scope text NOT NULL,
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    PRIMARY KEY (user_id, scope)
  );

  CREATE TABLE sessions (
    id text COLLATE "C" PRIMARY KEY,
    user_id text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    old_hash bytea,
    old_until bigint NOT NULL DEFAULT 0,
    is_stale boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    idle_ms bigint NOT NULL,
    ends_at bigint NOT NULL,
    address text,
    client text
  );
  CREATE INDEX sessions_of_user ON sessions (user_id);
  CREATE INDEX sessions_by_old_hash ON sessions (old_hash) WHERE old_hash IS NOT NULL;

  CREATE TABLE sign_in_links (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    user_id text COLLATE "C" REFERENCES users (id) ON DELETE CASCADE,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
  );
  CREATE INDEX sign_in_links_of_user ON sign_in_links (user_id);

  CREATE TABLE changes (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    actor text NOT NULL,
    actor_name text NOT NULL,
    address text,
    action text NOT NULL,
    target text NOT NULL,
    account_id text COLLATE "C",
    before text,
    after text,
    digest text NOT NULL
  );
  CREATE INDEX changes_of_account ON changes (account_id, position);

  CREATE TABLE password_tries (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name bytea NOT NULL CHECK (length(name) = 32),
    address bytea NOT NULL CHECK (length(address) = 32),
    at bigint NOT NULL
  );
  CREATE INDEX password_tries_of_name ON password_tries (name);
  CREATE INDEX password_tries_of_address ON password_tries (address);
  CREATE INDEX password_tries_by_time ON password_tries (at);

  CREATE TABLE known_places (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place bytea NOT NULL UNIQUE CHECK (length(place) = 32)
  );

  -- Counts a try under its name and its address, unless one of them has as many as may be.
  CREATE FUNCTION begin_try(of_name bytea, of_address bytea, most bigint, within_ms bigint, kept bigint,
    OUT of_position bigint, OUT wait_ms bigint) LANGUAGE plpgsql AS $$
  DECLARE
    at_ms bigint;
  BEGIN
    -- A crash of the server may lose those of the second before it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('password_tries', 19));
    at_ms := extract(epoch FROM clock_timestamp()) * 1000;
    -- Those far ahead were counted before the clock of the server was set back.
    DELETE FROM password_tries WHERE at <= at_ms - within_ms OR at > at_ms + within_ms
      OR position <= (SELECT max(position) FROM password_tries) - kept;
    SELECT max(begun_at) + within_ms - at_ms INTO wait_ms FROM (
      SELECT min(at) AS begun_at FROM password_tries WHERE name = of_name HAVING count(*) >= most
      UNION ALL SELECT min(at) FROM password_tries WHERE address = of_address HAVING count(*) >= most
    ) AS full_ones;
    IF wait_ms IS NULL THEN
      INSERT INTO password_tries (name, address, at) VALUES (of_name, of_address, at_ms)
        RETURNING position INTO of_position;
    END IF;
  END $$;

  CREATE TABLE settings (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
  );

  CREATE TABLE settings_set (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text NOT NULL,
    version bigint NOT NULL,
    at bigint NOT NULL,
    by text NOT NULL,
    PRIMARY KEY (kind, name)
  );
  
  CREATE CONSTRAINT TRIGGER settings_set_changed AFTER INSERT OR UPDATE OR DELETE ON settings_set
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION table_changed();

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


  CREATE FUNCTION kept_added() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN 
    INSERT INTO kept AS k (account_id, kind, shard, things, bytes)
      SELECT owner, TG_TABLE_NAME, pg_backend_pid() % 16, count(*), sum(bytes)
      FROM (SELECT account_id AS owner, bytes FROM added UNION ALL SELECT '', bytes FROM added) AS r
      GROUP BY owner ORDER BY owner
      ON CONFLICT (account_id, kind, shard)
        DO UPDATE SET things = k.things + excluded.things, bytes = k.bytes + excluded.bytes;
    RETURN NULL;
  END $$;
  CREATE FUNCTION kept_removed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN 
    INSERT INTO kept AS k (account_id, kind, shard, things, bytes)
      SELECT owner, TG_TABLE_NAME, pg_backend_pid() % 16, -count(*), -sum(bytes)
      FROM (SELECT account_id AS owner, bytes FROM removed UNION ALL SELECT '', bytes FROM removed) AS r
      GROUP BY owner ORDER BY owner
      ON CONFLICT (account_id, kind, shard)
        DO UPDATE SET things = k.things + excluded.things, bytes = k.bytes + excluded.bytes;
    RETURN NULL;
  END $$;
  CREATE FUNCTION kept_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN 
    INSERT INTO kept AS k (account_id, kind, shard, things, bytes)
      SELECT owner, TG_TABLE_NAME, pg_backend_pid() % 16, -count(*), -sum(bytes)
      FROM (SELECT account_id AS owner, bytes FROM removed UNION ALL SELECT '', bytes FROM removed) AS r
      GROUP BY owner ORDER BY owner
      ON CONFLICT (account_id, kind, shard)
        DO UPDATE SET things = k.things + excluded.things, bytes = k.bytes + excluded.bytes;
    INSERT INTO kept AS k (account_id, kind, shard, things, bytes)
      SELECT owner, TG_TABLE_NAME, pg_backend_pid() % 16, count(*), sum(bytes)
      FROM (SELECT account_id AS owner, bytes FROM added UNION ALL SELECT '', bytes FROM added) AS r
      GROUP BY owner ORDER BY owner
      ON CONFLICT (account_id, kind, shard)
        DO UPDATE SET things = k.things + excluded.things, bytes = k.bytes + excluded.bytes;
    RETURN NULL;
  END $$;
  
  CREATE TRIGGER kept_added AFTER INSERT ON responses REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON responses REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON responses REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();
  CREATE TRIGGER kept_added AFTER INSERT ON predictions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON predictions REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON predictions REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();
  CREATE TRIGGER kept_added AFTER INSERT ON files REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON files REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON files REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();
  CREATE TRIGGER kept_added AFTER INSERT ON outputs REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON outputs REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON outputs REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();
  CREATE TRIGGER kept_added AFTER INSERT ON reasoning REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON reasoning REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON reasoning REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();
  CREATE TRIGGER kept_added AFTER INSERT ON idempotent_answers REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_added();
  CREATE TRIGGER kept_changed AFTER UPDATE ON idempotent_answers REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION kept_changed();
  CREATE TRIGGER kept_removed AFTER DELETE ON idempotent_answers REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION kept_removed();

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
    input_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_write_5m_tokens bigint NOT NULL,
    cache_write_1h_tokens bigint NOT NULL,
    input_audio_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    output_audio_tokens bigint NOT NULL,
    output_image_tokens bigint NOT NULL,
    web_searches bigint NOT NULL,
    images bigint NOT NULL,
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
  ) WITH (fillfactor = 60);
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
  ) WITH (fillfactor = 60);
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
  
  CREATE CONSTRAINT TRIGGER subscriptions_changed AFTER INSERT OR UPDATE ON subscriptions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION account_row_changed('account_id');

  CREATE TABLE quota_windows (
    account_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    shard bigint NOT NULL,
    started_at bigint NOT NULL,
    ends_at bigint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (account_id, name, shard)
  ) WITH (fillfactor = 60);
  CREATE INDEX quota_windows_of_shard ON quota_windows (shard) WHERE shard <> 0;

  CREATE TABLE key_spends (
    key_id text COLLATE "C" NOT NULL,
    shard bigint NOT NULL,
    since bigint NOT NULL,
    spent bigint NOT NULL,
    PRIMARY KEY (key_id, shard)
  ) WITH (fillfactor = 60);
  CREATE INDEX key_spends_of_shard ON key_spends (shard) WHERE shard <> 0;

  -- Sums of the generations of one hour (since 1970, of created_at), by the process that wrote them, so that none waits
  -- for another. bill: of pay-as-you-go keys; listed: the list price of what subscriptions used.
  CREATE TABLE usage_hours (
    hour bigint NOT NULL,
    shard bigint NOT NULL,
    requests bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_write_5m_tokens bigint NOT NULL,
    cache_write_1h_tokens bigint NOT NULL,
    input_audio_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    output_audio_tokens bigint NOT NULL,
    output_image_tokens bigint NOT NULL,
    web_searches bigint NOT NULL,
    images bigint NOT NULL,
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
  ) WITH (fillfactor = 60);
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
  ) WITH (fillfactor = 60);
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
  ) WITH (fillfactor = 60);

  CREATE TABLE carried (
    id integer PRIMARY KEY CHECK (id = 1),
    before bigint NOT NULL
  );

  CREATE TABLE carried_transfers (
    debit bigint NOT NULL,
    credit bigint NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    kind text COLLATE "C" NOT NULL,
    PRIMARY KEY (debit, credit, kind)
  );

  CREATE TABLE carried_usage (
    account text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    bill bigint NOT NULL,
    flows bigint NOT NULL,
    PRIMARY KEY (account, key)
  );

  CREATE UNLOGGED TABLE open_progress (
    process bigint PRIMARY KEY,
    text text NOT NULL
  );

  CREATE FUNCTION hold_process(of_process bigint) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM FROM processes WHERE id = of_process AND ended_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'process % has ended', of_process USING ERRCODE = 'SLF01';
    END IF;
  END $$;

  -- The part of what is free that one process gets: what it wants, at most an equal share, at least what it needs.
  CREATE FUNCTION lease_share(free bigint, needed bigint, wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE alive bigint;
  BEGIN
    IF free <= needed THEN RETURN greatest(free, 0); END IF;
    SELECT greatest(count(*), 1) INTO alive FROM processes WHERE ended_at IS NULL;
    RETURN least(greatest(wanted, needed), needed + (free - needed) / alive);
  END $$;

  CREATE FUNCTION lease_funds(of_process bigint, of_account text, needed bigint, wanted bigint,
    OUT credit bigint, OUT bonus bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  DECLARE
    credit_id bigint; bonus_id bigint; free_credit bigint := 0; free_bonus bigint := 0; share bigint;
  BEGIN
    PERFORM hold_process(of_process);
    SELECT id INTO bonus_id FROM book_accounts WHERE kind = 'bonus' AND owner = of_account;
    SELECT id INTO credit_id FROM book_accounts WHERE kind = 'credit' AND owner = of_account;
    SELECT balance INTO free_bonus FROM book_balances WHERE account = bonus_id AND shard = 0 FOR UPDATE;
    SELECT balance INTO free_credit FROM book_balances WHERE account = credit_id AND shard = 0 FOR UPDATE;
    free_bonus := coalesce(free_bonus, 0);
    free_credit := coalesce(free_credit, 0);
    share := lease_share(free_bonus + free_credit, needed, wanted);
    bonus := least(greatest(free_bonus, 0), share);
    credit := share - bonus;
    IF bonus > 0 THEN PERFORM move_balance(bonus_id, 0, of_process, bonus); END IF;
    IF credit > 0 THEN PERFORM move_balance(credit_id, 0, of_process, credit); END IF;
    SELECT coalesce(sum(balance), 0) INTO elsewhere FROM book_balances
      WHERE account IN (bonus_id, credit_id) AND shard NOT IN (0, of_process) AND balance > 0;
  END $$;

  CREATE FUNCTION move_balance(of_account bigint, from_shard bigint, to_shard bigint, amount bigint) RETURNS void
  LANGUAGE sql AS $$
    UPDATE book_balances SET balance = balance - amount WHERE account = of_account AND shard = from_shard;
    INSERT INTO book_balances AS b (account, shard, balance) VALUES (of_account, to_shard, amount)
      ON CONFLICT (account, shard) DO UPDATE SET balance = b.balance + excluded.balance;
  $$;

  -- Windows of the account that are in force, of which the terms are given; those that have ended begin anew.
  CREATE FUNCTION lease_windows(of_process bigint, of_account text, terms text, at bigint, needed bigint, wanted bigint)
  RETURNS TABLE (
    name text, started_at bigint, ends_at bigint, granted bigint, elsewhere bigint, free bigint)
  LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE share bigint;
  BEGIN
    PERFORM hold_process(of_process);
    INSERT INTO quota_windows AS w (account_id, name, shard, started_at, ends_at, used)
      SELECT of_account, t.name, 0, t.starts_at, t.ends_at, 0 FROM window_terms(terms) AS t ORDER BY t.name
      ON CONFLICT (account_id, name, shard) DO UPDATE SET
        used = CASE WHEN w.ends_at <= at THEN 0 ELSE w.used END,
        started_at = CASE WHEN w.ends_at <= at THEN excluded.started_at ELSE w.started_at END,
        ends_at = CASE WHEN w.ends_at <= at THEN excluded.ends_at ELSE w.ends_at END;
    SELECT lease_share(min(t.most - w.used - (SELECT coalesce(sum(greatest(s.used, 0)), 0)::bigint
        FROM quota_windows AS s
        WHERE s.account_id = of_account AND s.name = w.name AND s.shard <> 0 AND s.started_at = w.started_at)),
        needed, wanted)
      INTO share
      FROM quota_windows AS w JOIN window_terms(terms) AS t ON t.name = w.name
      WHERE w.account_id = of_account AND w.shard = 0;
    IF share > 0 THEN
      UPDATE quota_windows AS w SET used = w.used + share
        WHERE w.account_id = of_account AND w.shard = 0 AND w.name IN (SELECT t.name FROM window_terms(terms) AS t);
      INSERT INTO quota_windows AS w (account_id, name, shard, started_at, ends_at, used)
        SELECT of_account, c.name, of_process, c.started_at, c.ends_at, -share FROM quota_windows AS c
        WHERE c.account_id = of_account AND c.shard = 0 AND c.name IN (SELECT t.name FROM window_terms(terms) AS t)
        ORDER BY c.name
        ON CONFLICT (account_id, name, shard) DO UPDATE SET
          used = CASE WHEN w.started_at = excluded.started_at THEN w.used + excluded.used ELSE excluded.used END,
          started_at = excluded.started_at, ends_at = excluded.ends_at
        WHERE w.started_at <= excluded.started_at;
    END IF;
    RETURN QUERY SELECT w.name, w.started_at, w.ends_at, share,
        (SELECT coalesce(sum(greatest(-s.used, 0)), 0)::bigint FROM quota_windows AS s
          WHERE s.account_id = of_account AND s.name = w.name AND s.shard NOT IN (0, of_process)
            AND s.started_at = w.started_at),
        t.most - w.used - (SELECT coalesce(sum(greatest(s.used, 0)), 0)::bigint FROM quota_windows AS s
          WHERE s.account_id = of_account AND s.name = w.name AND s.shard <> 0 AND s.started_at = w.started_at)
      FROM quota_windows AS w JOIN window_terms(terms) AS t ON t.name = w.name
      WHERE w.account_id = of_account AND w.shard = 0;
  END $$;

  CREATE FUNCTION window_terms(terms text) RETURNS TABLE (name text, most bigint, starts_at bigint, ends_at bigint)
  LANGUAGE sql IMMUTABLE AS $$
    SELECT * FROM jsonb_to_recordset(terms::jsonb) AS t (name text, most bigint, starts_at bigint, ends_at bigint)
  $$;

  -- Permits of keys at endpoints, with the time of the database at which they were given.
  CREATE TABLE permits (
    key_id text COLLATE "C" NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    process bigint NOT NULL,
    permits bigint NOT NULL
  );
  CREATE INDEX permits_of_key ON permits (key_id, endpoint, at);

  -- Of the limit, what was spent before counts in any case, and what was given before and stayed unused no longer.
  CREATE FUNCTION lease_permits(of_process bigint, of_key text, of_endpoint text, most bigint, needed bigint,
    wanted bigint, spent bigint, unused text, OUT granted bigint, OUT given_at double precision, OUT wait_ms bigint)
  LANGUAGE plpgsql AS $$
  DECLARE
    alive bigint; used bigint; counted_ms CONSTANT double precision := 62000;
  BEGIN
    PERFORM hold_process(of_process);
    -- A crash of the server may lose what was given in the second before it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_endpoint || ' ' || of_key, 19));
    given_at := extract(epoch FROM clock_timestamp()) * 1000;
    -- Those far ahead were given before the clock of the server was set back.
    DELETE FROM permits WHERE key_id = of_key AND endpoint = of_endpoint
      AND (at <= given_at - counted_ms OR at > given_at + counted_ms);
    IF unused IS NOT NULL THEN
      UPDATE permits AS p SET permits = p.permits - u.permits
        FROM jsonb_to_recordset(unused::jsonb) AS u (at double precision, permits bigint)
        WHERE p.key_id = of_key AND p.endpoint = of_endpoint AND p.at = u.at AND p.process = of_process;
    END IF;
    SELECT coalesce(sum(permits), 0) + spent INTO used FROM permits WHERE key_id = of_key AND endpoint = of_endpoint;
    SELECT greatest(count(*), 1) INTO alive FROM processes WHERE ended_at IS NULL;
    wait_ms := 0;
    granted := least(wanted, greatest(needed, (most - used) / (4 * alive)));
    IF granted > most - used THEN granted := 0; END IF;
    IF granted + spent > 0 THEN
      INSERT INTO permits VALUES (of_key, of_endpoint, given_at, of_process, granted + spent);
    END IF;
    IF granted < needed THEN
      -- The first instant at which as many are left as are needed.
      SELECT ceil(min(p.at) + counted_ms - given_at) INTO wait_ms FROM (
        SELECT at, sum(permits) OVER (ORDER BY at) AS gone FROM permits WHERE key_id = of_key AND endpoint = of_endpoint
      ) AS p WHERE used - p.gone + needed <= most;
    END IF;
  END $$;

  CREATE FUNCTION lease_budget(
    of_process bigint, of_key text, of_since bigint, most bigint, needed bigint, wanted bigint,
    OUT since bigint, OUT granted bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  #variable_conflict use_variable
  DECLARE
    spent_here bigint;
  BEGIN
    PERFORM hold_process(of_process);
    INSERT INTO key_spends AS s (key_id, shard, since, spent) VALUES (of_key, 0, of_since, 0)
      ON CONFLICT (key_id, shard) DO UPDATE SET since = greatest(s.since, excluded.since),
        spent = CASE WHEN s.since < excluded.since THEN 0 ELSE s.spent END
      RETURNING s.since, s.spent INTO since, spent_here;
    SELECT spent_here + coalesce(sum(greatest(s.spent, 0)), 0)::bigint,
        coalesce(sum(greatest(-s.spent, 0)) FILTER (WHERE s.shard <> of_process), 0)::bigint
      INTO spent_here, elsewhere
      FROM key_spends AS s WHERE s.key_id = of_key AND s.shard <> 0 AND s.since = lease_budget.since;
    granted := lease_share(most - spent_here, needed, wanted);
    IF granted > 0 THEN
      UPDATE key_spends SET spent = spent + granted WHERE key_id = of_key AND shard = 0;
      INSERT INTO key_spends AS s (key_id, shard, since, spent)
        VALUES (of_key, of_process, lease_budget.since, -granted)
        ON CONFLICT (key_id, shard) DO UPDATE SET
          spent = CASE WHEN s.since = excluded.since THEN s.spent + excluded.spent ELSE excluded.spent END,
          since = excluded.since
        WHERE s.since <= excluded.since;
    END IF;
  END $$;

  CREATE TABLE places (
    owner text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    places bigint NOT NULL,
    call bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (owner, process)
  );
  CREATE INDEX places_of_process ON places (process);

  CREATE FUNCTION lease_places(of_process bigint, of_owner text, of_call bigint, held bigint, most bigint,
    needed bigint, wanted bigint, OUT granted bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_owner, 23));
    INSERT INTO places AS p VALUES (of_owner, of_process, held, of_call, clock_timestamp())
      ON CONFLICT (owner, process)
        DO UPDATE SET places = excluded.places, call = excluded.call, at = excluded.at WHERE p.call < excluded.call;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'process % has called for places of % again', of_process, of_owner;
    END IF;
    SELECT coalesce(sum(p.places), 0) INTO elsewhere FROM places AS p
      WHERE p.owner = of_owner AND p.process <> of_process;
    granted := lease_share(most - elsewhere - held, needed, wanted);
    IF granted > 0 THEN
      UPDATE places AS p SET places = p.places + granted WHERE p.owner = of_owner AND p.process = of_process;
    END IF;
  END $$;

  -- Predictions that are admitted at this moment. What its process could not remove counts for ten minutes.
  CREATE TABLE prediction_places (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    at timestamptz NOT NULL
  );
  CREATE INDEX prediction_places_of_account ON prediction_places (account_id);

  CREATE FUNCTION take_prediction_place(of_process bigint, of_account text, of_id text, most bigint) RETURNS boolean
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_account, 20));
    DELETE FROM prediction_places AS p
      WHERE p.account_id = of_account AND (p.at < clock_timestamp() - interval '10 minutes'
        OR NOT EXISTS (SELECT FROM processes AS o WHERE o.id = p.process AND o.ended_at IS NULL));
    IF (SELECT (SELECT count(*) FROM predictions WHERE account_id = of_account AND completed_at IS NULL)
        + (SELECT count(*) FROM prediction_places WHERE account_id = of_account)) >= most THEN
      RETURN false;
    END IF;
    INSERT INTO prediction_places VALUES (of_id, of_account, of_process, clock_timestamp());
    RETURN true;
  END $$;

  -- True also for one that has its turn, or has ended.
  CREATE FUNCTION take_prediction_turn(of_process bigint, of_account text, of_id text, most bigint) RETURNS boolean
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_account, 20));
    IF NOT EXISTS (SELECT FROM predictions WHERE id = of_id AND completed_at IS NULL AND NOT has_turn) THEN
      RETURN true;
    END IF;
    IF (SELECT count(*) FROM predictions
        WHERE account_id = of_account AND completed_at IS NULL AND has_turn) >= most THEN
      RETURN false;
    END IF;
    UPDATE predictions SET has_turn = true WHERE id = of_id;
    RETURN true;
  END $$;

  -- Processes are notified of what they would find out by looking.
  CREATE FUNCTION prediction_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_notify('sluice_predictions', concat_ws(' ', CASE
      WHEN NEW.completed_at IS NOT NULL THEN 'ended'
      WHEN NEW.is_unwanted AND NOT OLD.is_unwanted THEN 'unwanted'
      ELSE 'changed' END, NEW.id, NEW.account_id));
    RETURN NULL;
  END $$;
  CREATE TRIGGER predictions_changed AFTER UPDATE OF completed_at, state, is_unwanted ON predictions
    FOR EACH ROW EXECUTE FUNCTION prediction_changed();

  CREATE TABLE bodies (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    segment text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL,
    length bigint NOT NULL,
    expires_at bigint NOT NULL,
    parts jsonb NOT NULL
  );
  CREATE INDEX bodies_by_expiry ON bodies (expires_at);
  CREATE INDEX bodies_of_account ON bodies (account_id);
  CREATE INDEX bodies_of_segment ON bodies (segment);

  CREATE TABLE body_keys (
    account_id text COLLATE "C" PRIMARY KEY,
    encrypted bytea NOT NULL
  );

  CREATE TABLE blob_chunks (
    name text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    content bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (name, number)
  );
  -- Blobs that were written to lately. A file or an output may not have them yet, or never, where a process has ended.
  CREATE TABLE new_blobs (
    name text COLLATE "C" PRIMARY KEY,
    written_at timestamptz NOT NULL
  );
  CREATE INDEX new_blobs_by_time ON new_blobs (written_at);

  CREATE TABLE idempotency_claims (
    account_id text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    digest bytea NOT NULL,
    process bigint,
    PRIMARY KEY (account_id, key)
  );

  CREATE TABLE activities (
    account_id text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    at timestamptz NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (account_id, process)
  );
