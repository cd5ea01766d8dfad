/** The tables, as steps that are only ever appended: step N takes a data folder from version N-1 to N (`PRAGMA user_version`). */
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
  // Where a provider still works on a response in the background: JSON of its provider id and of the provider's own response id.
  'ALTER TABLE responses ADD COLUMN upstream TEXT',
]
