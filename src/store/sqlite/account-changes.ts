/** A trigger that records the accounts which `select` gives as changed, as the last ones. */
const trigger = (name: string, event: string, select: string): string => `
  CREATE TRIGGER ${name} ${event} BEGIN
    DELETE FROM account_changes WHERE account_id IN (${select});
    INSERT INTO account_changes (account_id) ${select};
  END;`

const changed = (table: string, column: string): string =>
  ['INSERT', 'UPDATE']
    .map((event) => trigger(`${table}_${event}`, `AFTER ${event} ON ${table}`, `SELECT NEW.${column}`))
    .join('')

/**
 * Each account at its last change, by any process, of itself, its keys, its plan or its money: a server reads what
 * changed instead of everything. The transfers of generations are left out: there are many, and the server made them.
 */
export const ACCOUNT_CHANGES = `
  CREATE TABLE account_changes (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL UNIQUE
  ) STRICT;
  ${changed('accounts', 'id')}
  ${changed('keys', 'account_id')}
  ${changed('subscriptions', 'account_id')}
  ${trigger(
    'transfers_INSERT',
    "AFTER INSERT ON transfers WHEN typeof(NEW.reference) = 'text'",
    "SELECT owner FROM book_accounts WHERE id IN (NEW.debit, NEW.credit) AND kind IN ('credit', 'bonus')",
  )}
`
