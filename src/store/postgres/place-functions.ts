import type { Queries } from './client.ts'

/**
 * Slots of owners of which only so many are used at the same time, as processes have leased them. A call says how many
 * the process has, so that one whose answer was lost is made good by the next. It has a number: what arrives late
 * changes nothing.
 */
export const PLACES = `
  CREATE TABLE places (
    owner text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    places bigint NOT NULL,
    call bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (owner, process)
  );
  CREATE INDEX places_of_process ON places (process);

  CREATE FUNCTION lease_places(of_process bigint, of_owner text, of_call bigint, held bigint, most bigint,
    needed bigint, wanted bigint, OUT granted bigint, OUT elsewhere bigint) LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_owner, 23));
    INSERT INTO places AS p VALUES (of_owner, of_process, held, of_call, clock_timestamp())
      ON CONFLICT (owner, process)
        DO UPDATE SET places = excluded.places, call = excluded.call, at = excluded.at WHERE p.call < excluded.call;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'process % has called for places of % again', of_process, of_owner;
    END IF;
    SELECT coalesce(sum(p.places), 0) INTO elsewhere FROM places AS p
      WHERE p.owner = of_owner AND p.process <> of_process;
    granted := lease_share(most - elsewhere - held, needed, wanted);
    IF granted > 0 THEN
      UPDATE places AS p SET places = p.places + granted WHERE p.owner = of_owner AND p.process = of_process;
    END IF;
  END $$;
`

/** Removes rows without places, once no call can be on its way any more that is older than the last. */
export async function forgetPlaces(queries: Queries): Promise<void> {
  await queries.run(`DELETE FROM places WHERE places = 0 AND at < clock_timestamp() - interval '10 minutes'`)
}
