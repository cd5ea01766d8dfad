/**
 * The processes that share the database. The id is given once, so that it is the epoch of a process, too. One that has
 * ended, or that another declared dead, writes nothing any more.
 */
export const PROCESSES = `
  CREATE TABLE processes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    -- The number of its last transaction, by which it knows what became of one whose acknowledgement was lost.
    last_write bigint NOT NULL DEFAULT 0,
    -- The process that takes over what this one had open; set when it is declared dead, and until all is taken over.
    heir bigint
  );
  CREATE INDEX processes_alive ON processes (heartbeat_at) WHERE ended_at IS NULL;
`
