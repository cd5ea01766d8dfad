import type { KeptKind } from '../kept.ts'

const ITEMS = `
  -- Each item once: a response has its other members, with an empty array in place of its output. The id is null for an
  -- item that is not found by one.
  CREATE TABLE items (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL,
    response_id TEXT NOT NULL,
    id TEXT,
    is_output INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    item TEXT NOT NULL,
    FOREIGN KEY (account_id, response_id) REFERENCES responses (account_id, id) ON DELETE CASCADE
  ) STRICT;`

/** Items of responses move into rows of their own; responses and predictions have their size. */
export const ITEMS_ONCE = `${ITEMS}
  -- SQLite cannot read what is nested more than a thousand times.
  DELETE FROM responses WHERE NOT json_valid(response) OR NOT json_valid(input);
  INSERT INTO items (account_id, response_id, id, is_output, expires_at, item)
    SELECT r.account_id, r.id,
      CASE WHEN e.type = 'object' AND json_type(e.value, '$.id') = 'text'
        AND json_extract(e.value, '$.type') IS NOT 'item_reference' THEN json_extract(e.value, '$.id') END,
      e.is_output, r.expires_at,
      CASE e.type WHEN 'object' THEN e.value WHEN 'array' THEN e.value WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'
        ELSE json_quote(e.value) END
    FROM responses AS r, (
      SELECT position, 0 AS is_output, key, type, value FROM responses, json_each(input)
      UNION ALL SELECT position, 1, key, json_each.type, value FROM responses, json_each(response, '$.output')
        WHERE json_type(response, '$.output') = 'array'
    ) AS e ON e.position = r.position
    ORDER BY r.position, e.is_output, e.key;
  DROP TABLE response_items;
  ALTER TABLE items RENAME TO response_items;
  CREATE INDEX response_items_by_id ON response_items (account_id, id, position) WHERE id IS NOT NULL;
  CREATE INDEX response_items_by_response ON response_items (account_id, response_id);
  ALTER TABLE responses DROP COLUMN input;
  ALTER TABLE responses ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE responses SET response = json_set(response, '$.output', json('[]'))
    WHERE json_type(response, '$.output') = 'array';
  UPDATE responses SET bytes = length(CAST(response AS BLOB)) + (
    SELECT coalesce(sum(length(CAST(item AS BLOB))), 0) FROM response_items AS i
      WHERE i.account_id = responses.account_id AND i.response_id = responses.id);

  ALTER TABLE predictions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE predictions SET bytes = length(CAST(state AS BLOB)) + (
    SELECT coalesce(sum(length(CAST(input AS BLOB))), 0) FROM prediction_inputs AS i WHERE i.id = predictions.id);
`

const COUNTED: readonly KeptKind[] = ['responses', 'predictions', 'files', 'outputs', 'reasoning']

/** Triggers that keep the totals of a table, which has the columns account_id and bytes, in the table kept. */
export const totalsOf = (table: KeptKind): string => `
  INSERT INTO kept (account_id, kind, things, bytes)
    SELECT account_id, '${table}', count(*), sum(bytes) FROM ${table} GROUP BY account_id;
  INSERT INTO kept (account_id, kind, things, bytes)
    SELECT '', '${table}', count(*), coalesce(sum(bytes), 0) FROM ${table};
  CREATE TRIGGER ${table}_added AFTER INSERT ON ${table} BEGIN
    INSERT INTO kept (account_id, kind, things, bytes)
      VALUES (new.account_id, '${table}', 1, new.bytes), ('', '${table}', 1, new.bytes)
      ON CONFLICT (account_id, kind) DO UPDATE SET things = things + 1, bytes = bytes + excluded.bytes;
  END;
  CREATE TRIGGER ${table}_resized AFTER UPDATE OF bytes ON ${table} BEGIN
    UPDATE kept SET bytes = bytes + new.bytes - old.bytes
      WHERE account_id IN (new.account_id, '') AND kind = '${table}';
  END;
  CREATE TRIGGER ${table}_removed AFTER DELETE ON ${table} BEGIN
    UPDATE kept SET things = things - 1, bytes = bytes - old.bytes
      WHERE account_id IN (old.account_id, '') AND kind = '${table}';
  END;`

/** The totals and their triggers. */
export const TOTALS = `
  -- Number and bytes of what each account has of a kind. Those of all accounts together have the account ''.
  CREATE TABLE kept (
    account_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    things INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (account_id, kind)
  ) STRICT, WITHOUT ROWID;
  ${COUNTED.map(totalsOf).join('')}
`
