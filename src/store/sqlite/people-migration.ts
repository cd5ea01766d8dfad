/** People, their roles, sessions and links; roles of management keys; the log of what all of them changed. */
export const PEOPLE = `
  CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT UNIQUE,
    password TEXT,
    created_at INTEGER NOT NULL,
    joined_at INTEGER
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE user_roles (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    PRIMARY KEY (user_id, scope)
  ) STRICT, WITHOUT ROWID;

  -- Names of users at other services that sign them in.
  CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (issuer, subject)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    old_hash BLOB,
    old_until INTEGER NOT NULL DEFAULT 0,
    is_stale INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    idle_ms INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    address TEXT,
    client TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sessions_of_user ON sessions (user_id);
  CREATE INDEX sessions_by_old_hash ON sessions (old_hash) WHERE old_hash IS NOT NULL;

  CREATE TABLE sign_in_links (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE changes (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    address TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    account_id TEXT,
    before TEXT,
    after TEXT,
    digest TEXT NOT NULL
  ) STRICT;
  CREATE INDEX changes_of_account ON changes (account_id, position);

  -- Without a role, a management key is a viewer of its account.
  ALTER TABLE keys ADD COLUMN role TEXT;
  ALTER TABLE keys ADD COLUMN scope TEXT;
  ALTER TABLE keys ADD COLUMN created_by TEXT;
  ALTER TABLE keys ADD COLUMN source TEXT;
`

/** The last use of each key, apart from the keys, whose changes are watched. */
export const KEY_USES = `
  CREATE TABLE key_uses (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`
