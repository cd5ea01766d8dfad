/** People, their roles, sessions and links; the log of what all of them and management keys changed. */
export const PEOPLE = `
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
`
