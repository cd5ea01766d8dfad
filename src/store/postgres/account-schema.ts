import { ACCOUNT_CHANGES, accountTrigger } from './account-changes.ts'

/** Money in nano-USD, discounts in basis points. */
export const ACCOUNTS = `
  ${ACCOUNT_CHANGES}
  CREATE TABLE accounts (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL UNIQUE,
    status text NOT NULL CHECK (status IN ('healthy', 'monitored', 'abusive', 'suspended', 'banned')),
    created_at bigint NOT NULL,
    discount integer NOT NULL CHECK (discount BETWEEN 0 AND 10000),
    -- The requests of the account that its members see: those of their own keys, or of all.
    member_requests text NOT NULL CHECK (member_requests IN ('own', 'all'))
  );
  ${accountTrigger('accounts', 'id')}

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
  ${accountTrigger('keys', 'account_id')}

  -- The last use of each key, apart from the keys, whose changes are watched.
  CREATE TABLE key_uses (
    key_id text COLLATE "C" PRIMARY KEY,
    at bigint NOT NULL
  );
`
