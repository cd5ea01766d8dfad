import { ACCOUNT_CHANGES } from './account-changes.ts'
import { BODIES } from './body-tables.ts'
import { CARRIED } from './carried-tables.ts'
import { REMOVALS } from './file-tables.ts'
import { KEY_USES, PEOPLE } from './people-migration.ts'
import { REPORT_TABLES } from './reports/report-tables.ts'
import { SETTINGS_SET } from './set-setting-table.ts'
import { ITEMS_ONCE, TOTALS, totalsOf } from './totals-migration.ts'
import { PASSWORD_ATTEMPTS } from './password-attempt-table.ts'

/** New columns for buckets of usage. */
const bucketsOf = (...columns: string[]): string =>
  ['generations', 'usage_hours']
    .flatMap((table) =>
      columns.map((column) => `ALTER TABLE ${table} ADD COLUMN ${column} INTEGER NOT NULL DEFAULT 0;`),
    )
    .join('\n')

/** Schema migrations, append-only: step N takes a data folder from version N-1 to N (`PRAGMA user_version`). */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('healthy', 'monitored', 'abusive', 'suspended', 'banned')),
    created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('pay-as-you-go', 'subscription', 'management')),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix TEXT NOT NULL,
    last4 TEXT NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    requests_per_minute INTEGER CHECK (requests_per_minute > 0)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keys_by_account ON keys (account_id);

  CREATE TABLE responses (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    response TEXT NOT NULL,
    input TEXT NOT NULL,
    UNIQUE (account_id, id)
  ) STRICT;
  CREATE INDEX responses_by_expiry ON responses (expires_at);

  CREATE TABLE response_items (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL,
    response_id TEXT NOT NULL,
    id TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    item TEXT NOT NULL,
    FOREIGN KEY (account_id, response_id) REFERENCES responses (account_id, id) ON DELETE CASCADE
  ) STRICT;
  CREATE INDEX response_items_by_id ON response_items (account_id, id, position);
  CREATE INDEX response_items_by_response ON response_items (account_id, response_id);
  `,
  // For a response in the background: provider id and the provider's own response id, as JSON.
  'ALTER TABLE responses ADD COLUMN upstream TEXT',
  // Money in nano-USD, flows in micro-flows, discounts in basis points.
  `
  ALTER TABLE accounts ADD COLUMN discount INTEGER NOT NULL DEFAULT 0 CHECK (discount BETWEEN 0 AND 10000);
  ALTER TABLE keys ADD COLUMN models TEXT;
  ALTER TABLE keys ADD COLUMN spend_limit INTEGER CHECK (spend_limit >= 0);
  ALTER TABLE keys ADD COLUMN limit_period TEXT CHECK (limit_period IN ('day', 'week', 'month'));

  -- Texts that repeat in many generations, each stored once: ids of accounts and keys, models, providers, protocols,
  -- finish reasons and outcomes.
  CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
  ) STRICT;

  CREATE TABLE prices (
    id INTEGER PRIMARY KEY,
    version TEXT NOT NULL,
    model TEXT NOT NULL,
    rates TEXT NOT NULL,
    UNIQUE (version, model, rates)
  ) STRICT;

  -- Ids begin with the time, so that rows are appended. account to ending are ids in names.
  CREATE TABLE generations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    account INTEGER NOT NULL,
    key INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    api INTEGER NOT NULL,
    model INTEGER NOT NULL,
    provider INTEGER,
    finish INTEGER NOT NULL,
    ending INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    latency INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    streamed INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    attempts TEXT,
    estimated INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_5m_tokens INTEGER NOT NULL,
    cache_write_1h_tokens INTEGER NOT NULL,
    input_audio_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    output_audio_tokens INTEGER NOT NULL,
    output_image_tokens INTEGER NOT NULL,
    web_searches INTEGER NOT NULL,
    images INTEGER NOT NULL,
    price INTEGER,
    discount INTEGER NOT NULL,
    held INTEGER NOT NULL CHECK (held >= 0),
    bill INTEGER NOT NULL CHECK (bill >= 0),
    flows INTEGER NOT NULL CHECK (flows >= 0)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE open_generations (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    account_id TEXT NOT NULL,
    state TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE book_accounts (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    balance INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, owner)
  ) STRICT;

  -- The reference is a generation's id (16 bytes) or an operation's (text).
  CREATE TABLE transfers (
    reference ANY NOT NULL,
    kind TEXT NOT NULL,
    debit INTEGER NOT NULL,
    credit INTEGER NOT NULL CHECK (credit <> debit),
    amount INTEGER NOT NULL CHECK (amount > 0),
    at INTEGER NOT NULL,
    note TEXT,
    PRIMARY KEY (reference, kind)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE subscriptions (
    account_id TEXT PRIMARY KEY REFERENCES accounts (id),
    tier TEXT NOT NULL,
    anchor INTEGER NOT NULL,
    period_start INTEGER NOT NULL,
    period_end INTEGER NOT NULL,
    renews INTEGER NOT NULL,
    next_tier TEXT
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE quota_windows (
    account_id TEXT NOT NULL,
    name TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0),
    PRIMARY KEY (account_id, name)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE key_spends (
    key_id TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    spent INTEGER NOT NULL CHECK (spent >= 0)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Rows of files and outputs. The bytes are files in the data folder, named by blob.
  CREATE TABLE files (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    blob TEXT NOT NULL UNIQUE,
    filename TEXT NOT NULL,
    purpose TEXT,
    bytes INTEGER NOT NULL CHECK (bytes >= 0),
    media_type TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    metadata TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
  ) STRICT, WITHOUT ROWID;
  -- Includes bytes, so that an account's usage is read from the index alone.
  CREATE INDEX files_of_account ON files (account_id, created_at, id, expires_at, bytes);
  CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

  -- Files that models generated, readable by anyone with the token.
  CREATE TABLE outputs (
    token TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    blob TEXT NOT NULL UNIQUE,
    media_type TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX outputs_by_expiry ON outputs (expires_at);
  `,
  `
  CREATE TABLE predictions (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    -- JSON: the result, and where it runs.
    state TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX predictions_of_account ON predictions (account_id, id);
  CREATE INDEX predictions_under_way ON predictions (status, id) WHERE completed_at IS NULL;
  CREATE INDEX predictions_by_completion ON predictions (completed_at) WHERE completed_at IS NOT NULL;

  CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    prediction_id TEXT NOT NULL,
    url TEXT NOT NULL,
    body TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (next_at);
  `,
  `
  -- Inputs as JSON, apart from the rest because they may be large and never change.
  CREATE TABLE prediction_inputs (
    id TEXT PRIMARY KEY,
    input TEXT NOT NULL
  ) STRICT;
  `,
  `
  -- Signed reasoning that providers require back after tool calls. The key is a digest of the account and of the first
  -- call's id; sealed is encrypted under that id.
  CREATE TABLE reasoning (
    position INTEGER PRIMARY KEY,
    account_id TEXT NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    UNIQUE (account_id, key)
  ) STRICT;
  CREATE INDEX reasoning_by_expiry ON reasoning (expires_at);
  -- Includes every column of the usage query, which is answered from the index alone.
  CREATE INDEX reasoning_of_account ON reasoning (account_id, expires_at, provider, model, bytes);
  `,
  // Losses in translation between the client's and the provider's protocol, as JSON.
  'ALTER TABLE generations ADD COLUMN translation TEXT',
  ITEMS_ONCE + TOTALS,
  // The way in which unreported usage was counted, and usage that its provider cannot have been asked for, as JSON.
  `
  ALTER TABLE generations ADD COLUMN estimation TEXT;
  ALTER TABLE generations ADD COLUMN disputed TEXT;
  `,
  // The command line asks the server to begin the quota windows of an account anew.
  `
  ALTER TABLE subscriptions ADD COLUMN reset_requested INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE subscriptions ADD COLUMN repeated_until INTEGER;
  `,
  `
  -- Answers to requests with an Idempotency-Key. key and digest are hashes of the key's text and of the request.
  CREATE TABLE idempotent_answers (
    position INTEGER PRIMARY KEY,
    account_id TEXT NOT NULL,
    key BLOB NOT NULL CHECK (length(key) = 32),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (account_id, key)
  ) STRICT;
  CREATE INDEX idempotent_answers_by_expiry ON idempotent_answers (expires_at);
  -- Both include bytes, so that the sums are read from the index alone.
  CREATE INDEX idempotent_answers_of_account ON idempotent_answers (account_id, created_at, bytes);
  CREATE INDEX idempotent_answers_by_time ON idempotent_answers (created_at, bytes);
  ALTER TABLE keys ADD COLUMN idempotency INTEGER NOT NULL DEFAULT 1;
  `,
  totalsOf('idempotent_answers'),
  ACCOUNT_CHANGES,
  `
  -- Ids of objects that providers store, each with the account to which a response named it.
  CREATE TABLE issued_ids (
    position INTEGER PRIMARY KEY,
    account_id TEXT NOT NULL,
    id TEXT NOT NULL,
    provider TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (account_id, id)
  ) STRICT;
  CREATE INDEX issued_ids_by_expiry ON issued_ids (expires_at);
  CREATE INDEX issued_ids_of_account ON issued_ids (account_id, expires_at);
  `,
  PEOPLE,
  REPORT_TABLES,
  KEY_USES,
  SETTINGS_SET,
  BODIES,
  CARRIED,
  PASSWORD_ATTEMPTS,
  REMOVALS,
  // The requests of an account that its members see: those of their own keys, or of all.
  `
  ALTER TABLE accounts ADD COLUMN member_requests TEXT NOT NULL DEFAULT 'own' CHECK (member_requests IN ('own', 'all'));
  `,
  // Whoever posts an operation records its accounts as changed.
  'DROP TRIGGER transfers_INSERT',
  // When limits of keys were changed before is not known.
  `
  ALTER TABLE keys ADD COLUMN limit_since INTEGER;
  UPDATE keys SET limit_since = 1000 * unixepoch() WHERE spend_limit IS NOT NULL;
  `,
  // It is not known which of those that have ended ran in the background.
  `
  ALTER TABLE responses ADD COLUMN is_background INTEGER NOT NULL DEFAULT 0;
  UPDATE responses SET is_background = 1 WHERE upstream IS NOT NULL;
  CREATE INDEX responses_in_background ON responses (id) WHERE is_background = 1;
  CREATE INDEX responses_in_background_of_account ON responses (account_id, id) WHERE is_background = 1;
  `,
  // Images, cached audio and video were counted as other tokens before.
  bucketsOf('input_image_tokens', 'cache_read_audio_tokens', 'output_video_tokens'),
  // Tokens of the image model of a tool were not counted before.
  bucketsOf(
    ...['image_tool_input_tokens', 'image_tool_input_image_tokens'],
    ...['image_tool_output_tokens', 'image_tool_output_image_tokens'],
  ),
  // A page of jobs looks for the webhook call of each.
  'CREATE INDEX webhook_deliveries_of_prediction ON webhook_deliveries (prediction_id)',
]
