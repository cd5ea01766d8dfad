/**
 * Roll-ups of generations and refusals, and the refusals themselves. All texts are ids in names; 0 means none.
 */
export const REPORT_TABLES = `
  -- Sums of the generations of one hour (since 1970, of created_at). bill: of pay-as-you-go keys; listed: the list
  -- price of what subscriptions used.
  CREATE TABLE usage_hours (
    hour INTEGER NOT NULL,
    account INTEGER NOT NULL,
    key INTEGER NOT NULL,
    model INTEGER NOT NULL,
    provider INTEGER NOT NULL,
    ending INTEGER NOT NULL,
    requests INTEGER NOT NULL,
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
    bill INTEGER NOT NULL,
    listed INTEGER NOT NULL,
    flows INTEGER NOT NULL,
    latency INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    PRIMARY KEY (hour, account, key, model, provider, ending)
  ) STRICT, WITHOUT ROWID;

  -- Completed streams by the time to their first token: bucket is round(8 log2 ms). tokens in duration ms after it.
  CREATE TABLE speed_hours (
    hour INTEGER NOT NULL,
    provider INTEGER NOT NULL,
    model INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    PRIMARY KEY (hour, provider, model, bucket)
  ) STRICT, WITHOUT ROWID;

  -- Requests that never became a generation.
  CREATE TABLE refusals (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    at INTEGER NOT NULL,
    account INTEGER NOT NULL,
    key INTEGER NOT NULL,
    route INTEGER NOT NULL,
    code INTEGER NOT NULL,
    status INTEGER NOT NULL,
    param TEXT,
    message TEXT NOT NULL,
    model INTEGER NOT NULL,
    client INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE refusal_hours (
    hour INTEGER NOT NULL,
    account INTEGER NOT NULL,
    key INTEGER NOT NULL,
    code INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (hour, account, key, code)
  ) STRICT, WITHOUT ROWID;

  -- is_open: a server adds to the roll-ups, or was killed while it did. counted_from: the first hour whose generations
  -- are all counted; those of earlier versions are counted beside the server.
  CREATE TABLE roll_ups (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    is_open INTEGER NOT NULL,
    counted_from INTEGER NOT NULL
  ) STRICT;
  INSERT INTO roll_ups (id, is_open, counted_from)
    VALUES (1, 0, coalesce((SELECT created_at / 3600000 + 26 FROM generations ORDER BY id DESC LIMIT 1), 0));

  ALTER TABLE generations ADD COLUMN client INTEGER;
`
