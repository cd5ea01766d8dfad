/** The channel on which processes are notified that one of them changed what others have in memory. */
export const CHANGES_CHANNEL = 'sluice_changes'

/** The advisory lock under which positions of changes are given, any constant. */
const LOCK = 7_158_420_332

/**
 * A trigger that records the accounts of changed rows. It runs at the end of the transaction, so that the lock is held
 * for its commit alone and after all locks of rows.
 */
export const accountTrigger = (table: string, column: string): string => `
  CREATE CONSTRAINT TRIGGER ${table}_changed AFTER INSERT OR UPDATE ON ${table}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION account_row_changed('${column}');`

/** The same for tables that processes read whole. */
export const tableTrigger = (table: string): string => `
  CREATE CONSTRAINT TRIGGER ${table}_changed AFTER INSERT OR UPDATE OR DELETE ON ${table}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION table_changed();`

/**
 * Each account, and each table, at its last change by any process. Positions are given under a lock that is held until
 * the commit, so that they become visible in their order, and no reader skips one.
 */
export const ACCOUNT_CHANGES = `
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
    PERFORM pg_advisory_xact_lock(${LOCK});
    INSERT INTO account_changes (account_id, position) VALUES (changed, nextval('change_positions'))
      ON CONFLICT (account_id) DO UPDATE SET position = excluded.position;
    NOTIFY ${CHANGES_CHANNEL};
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
    PERFORM pg_advisory_xact_lock(${LOCK});
    INSERT INTO table_changes (name, position) VALUES (TG_TABLE_NAME, nextval('change_positions'))
      ON CONFLICT (name) DO UPDATE SET position = excluded.position;
    NOTIFY ${CHANGES_CHANNEL};
    RETURN NULL;
  END
  $function$;
`
