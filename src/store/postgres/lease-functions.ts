import type { Queries } from './client.ts'

/**
 * The time in which a permit for a request may be used. It counts for a minute from the end of it. Twice that for which
 * a process leases, so that what it fetches ahead of need does not end before it is used.
 */
export const PERMIT_MS = 2_000

/**
 * The functions by which a process leases. Each is one round trip and its own transaction. A process that was declared
 * dead leases nothing, and the rows of an account are locked in one order.
 */
export const LEASE_FUNCTIONS = `
  CREATE FUNCTION hold_process(of_process bigint) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM FROM processes WHERE id = of_process AND ended_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'process % has ended', of_process USING ERRCODE = 'SLF01';
    END IF;
  END $$;

  -- The part of what is free that one process gets: what it wants, at most an equal share, at least what it needs.
  CREATE FUNCTION lease_share(free bigint, needed bigint, wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE alive bigint;
  BEGIN
    IF free <= needed THEN RETURN greatest(free, 0); END IF;
    SELECT greatest(count(*), 1) INTO alive FROM processes WHERE ended_at IS NULL;
    RETURN least(greatest(wanted, needed), needed + (free - needed) / alive);
  END $$;

  CREATE FUNCTION lease_funds(of_process bigint, of_account text, needed bigint, wanted bigint,
    OUT credit bigint, OUT bonus bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  DECLARE
    credit_id bigint; bonus_id bigint; free_credit bigint := 0; free_bonus bigint := 0; share bigint;
  BEGIN
    PERFORM hold_process(of_process);
    SELECT id INTO bonus_id FROM book_accounts WHERE kind = 'bonus' AND owner = of_account;
    SELECT id INTO credit_id FROM book_accounts WHERE kind = 'credit' AND owner = of_account;
    SELECT balance INTO free_bonus FROM book_balances WHERE account = bonus_id AND shard = 0 FOR UPDATE;
    SELECT balance INTO free_credit FROM book_balances WHERE account = credit_id AND shard = 0 FOR UPDATE;
    free_bonus := coalesce(free_bonus, 0);
    free_credit := coalesce(free_credit, 0);
    share := lease_share(free_bonus + free_credit, needed, wanted);
    bonus := least(greatest(free_bonus, 0), share);
    credit := share - bonus;
    IF bonus > 0 THEN PERFORM move_balance(bonus_id, 0, of_process, bonus); END IF;
    IF credit > 0 THEN PERFORM move_balance(credit_id, 0, of_process, credit); END IF;
    SELECT coalesce(sum(balance), 0) INTO elsewhere FROM book_balances
      WHERE account IN (bonus_id, credit_id) AND shard NOT IN (0, of_process) AND balance > 0;
  END $$;

  CREATE FUNCTION move_balance(of_account bigint, from_shard bigint, to_shard bigint, amount bigint) RETURNS void
  LANGUAGE sql AS $$
    UPDATE book_balances SET balance = balance - amount WHERE account = of_account AND shard = from_shard;
    INSERT INTO book_balances AS b (account, shard, balance) VALUES (of_account, to_shard, amount)
      ON CONFLICT (account, shard) DO UPDATE SET balance = b.balance + excluded.balance;
  $$;

  -- Windows of the account that are in force, of which the terms are given; those that have ended begin anew.
  CREATE FUNCTION lease_windows(of_process bigint, of_account text, terms text, at bigint, needed bigint, wanted bigint)
  RETURNS TABLE (
    name text, started_at bigint, ends_at bigint, granted bigint, elsewhere bigint, free bigint)
  LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE share bigint;
  BEGIN
    PERFORM hold_process(of_process);
    INSERT INTO quota_windows AS w (account_id, name, shard, started_at, ends_at, used)
      SELECT of_account, t.name, 0, t.starts_at, t.ends_at, 0 FROM window_terms(terms) AS t ORDER BY t.name
      ON CONFLICT (account_id, name, shard) DO UPDATE SET
        used = CASE WHEN w.ends_at <= at THEN 0 ELSE w.used END,
        started_at = CASE WHEN w.ends_at <= at THEN excluded.started_at ELSE w.started_at END,
        ends_at = CASE WHEN w.ends_at <= at THEN excluded.ends_at ELSE w.ends_at END;
    SELECT lease_share(min(t.most - w.used - (SELECT coalesce(sum(greatest(s.used, 0)), 0)::bigint
        FROM quota_windows AS s
        WHERE s.account_id = of_account AND s.name = w.name AND s.shard <> 0 AND s.started_at = w.started_at)),
        needed, wanted)
      INTO share
      FROM quota_windows AS w JOIN window_terms(terms) AS t ON t.name = w.name
      WHERE w.account_id = of_account AND w.shard = 0;
    IF share > 0 THEN
      UPDATE quota_windows AS w SET used = w.used + share
        WHERE w.account_id = of_account AND w.shard = 0 AND w.name IN (SELECT t.name FROM window_terms(terms) AS t);
      INSERT INTO quota_windows AS w (account_id, name, shard, started_at, ends_at, used)
        SELECT of_account, c.name, of_process, c.started_at, c.ends_at, -share FROM quota_windows AS c
        WHERE c.account_id = of_account AND c.shard = 0 AND c.name IN (SELECT t.name FROM window_terms(terms) AS t)
        ORDER BY c.name
        ON CONFLICT (account_id, name, shard) DO UPDATE SET
          used = CASE WHEN w.started_at = excluded.started_at THEN w.used + excluded.used ELSE excluded.used END,
          started_at = excluded.started_at, ends_at = excluded.ends_at
        WHERE w.started_at <= excluded.started_at;
    END IF;
    RETURN QUERY SELECT w.name, w.started_at, w.ends_at, share,
        (SELECT coalesce(sum(greatest(-s.used, 0)), 0)::bigint FROM quota_windows AS s
          WHERE s.account_id = of_account AND s.name = w.name AND s.shard NOT IN (0, of_process)
            AND s.started_at = w.started_at),
        t.most - w.used - (SELECT coalesce(sum(greatest(s.used, 0)), 0)::bigint FROM quota_windows AS s
          WHERE s.account_id = of_account AND s.name = w.name AND s.shard <> 0 AND s.started_at = w.started_at)
      FROM quota_windows AS w JOIN window_terms(terms) AS t ON t.name = w.name
      WHERE w.account_id = of_account AND w.shard = 0;
  END $$;

  CREATE FUNCTION window_terms(terms text) RETURNS TABLE (name text, most bigint, starts_at bigint, ends_at bigint)
  LANGUAGE sql IMMUTABLE AS $$
    SELECT * FROM jsonb_to_recordset(terms::jsonb) AS t (name text, most bigint, starts_at bigint, ends_at bigint)
  $$;

  -- Permits of keys at endpoints, with the time of the database at which they were given.
  CREATE TABLE permits (
    key_id text COLLATE "C" NOT NULL,
    endpoint text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    process bigint NOT NULL,
    permits bigint NOT NULL
  );
  CREATE INDEX permits_of_key ON permits (key_id, endpoint, at);

  -- Of the limit, what was spent before counts in any case, and what was given before and stayed unused no longer.
  CREATE FUNCTION lease_permits(of_process bigint, of_key text, of_endpoint text, most bigint, needed bigint,
    wanted bigint, spent bigint, unused text, OUT granted bigint, OUT given_at double precision, OUT wait_ms bigint)
  LANGUAGE plpgsql AS $$
  DECLARE
    alive bigint; used bigint; counted_ms CONSTANT double precision := ${60_000 + PERMIT_MS};
  BEGIN
    PERFORM hold_process(of_process);
    -- A crash of the server may lose what was given in the second before it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_endpoint || ' ' || of_key, 19));
    given_at := extract(epoch FROM clock_timestamp()) * 1000;
    -- Those far ahead were given before the clock of the server was set back.
    DELETE FROM permits WHERE key_id = of_key AND endpoint = of_endpoint
      AND (at <= given_at - counted_ms OR at > given_at + counted_ms);
    IF unused IS NOT NULL THEN
      UPDATE permits AS p SET permits = p.permits - u.permits
        FROM jsonb_to_recordset(unused::jsonb) AS u (at double precision, permits bigint)
        WHERE p.key_id = of_key AND p.endpoint = of_endpoint AND p.at = u.at AND p.process = of_process;
    END IF;
    SELECT coalesce(sum(permits), 0) + spent INTO used FROM permits WHERE key_id = of_key AND endpoint = of_endpoint;
    SELECT greatest(count(*), 1) INTO alive FROM processes WHERE ended_at IS NULL;
    wait_ms := 0;
    granted := least(wanted, greatest(needed, (most - used) / (4 * alive)));
    IF granted > most - used THEN granted := 0; END IF;
    IF granted + spent > 0 THEN
      INSERT INTO permits VALUES (of_key, of_endpoint, given_at, of_process, granted + spent);
    END IF;
    IF granted < needed THEN
      -- The first instant at which as many are left as are needed.
      SELECT ceil(min(p.at) + counted_ms - given_at) INTO wait_ms FROM (
        SELECT at, sum(permits) OVER (ORDER BY at) AS gone FROM permits WHERE key_id = of_key AND endpoint = of_endpoint
      ) AS p WHERE used - p.gone + needed <= most;
    END IF;
  END $$;

  CREATE FUNCTION lease_budget(
    of_process bigint, of_key text, of_since bigint, most bigint, needed bigint, wanted bigint,
    OUT since bigint, OUT granted bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  #variable_conflict use_variable
  DECLARE
    spent_here bigint;
  BEGIN
    PERFORM hold_process(of_process);
    INSERT INTO key_spends AS s (key_id, shard, since, spent) VALUES (of_key, 0, of_since, 0)
      ON CONFLICT (key_id, shard) DO UPDATE SET since = greatest(s.since, excluded.since),
        spent = CASE WHEN s.since < excluded.since THEN 0 ELSE s.spent END
      RETURNING s.since, s.spent INTO since, spent_here;
    SELECT spent_here + coalesce(sum(greatest(s.spent, 0)), 0)::bigint,
        coalesce(sum(greatest(-s.spent, 0)) FILTER (WHERE s.shard <> of_process), 0)::bigint
      INTO spent_here, elsewhere
      FROM key_spends AS s WHERE s.key_id = of_key AND s.shard <> 0 AND s.since = lease_budget.since;
    granted := lease_share(most - spent_here, needed, wanted);
    IF granted > 0 THEN
      UPDATE key_spends SET spent = spent + granted WHERE key_id = of_key AND shard = 0;
      INSERT INTO key_spends AS s (key_id, shard, since, spent)
        VALUES (of_key, of_process, lease_budget.since, -granted)
        ON CONFLICT (key_id, shard) DO UPDATE SET
          spent = CASE WHEN s.since = excluded.since THEN s.spent + excluded.spent ELSE excluded.spent END,
          since = excluded.since
        WHERE s.since <= excluded.since;
    END IF;
  END $$;
`

/** Removes permits that count no more, of owners for which none were leased since. It waits for no lease. */
export async function forgetPermits(queries: Queries): Promise<void> {
  await queries.run(`DELETE FROM permits WHERE ctid IN (
    SELECT ctid FROM permits WHERE at < extract(epoch FROM clock_timestamp()) * 1000 - 600000 FOR UPDATE SKIP LOCKED)`)
}
