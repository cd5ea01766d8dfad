import { tableTrigger } from './account-changes.ts'

/** Facts about the database, and what was set at run time, whose secrets are encrypted. */
export const SETTINGS = `
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
  ${tableTrigger('settings_set')}
`
