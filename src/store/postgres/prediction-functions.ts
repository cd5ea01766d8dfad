/** The channel of changes of predictions: the kind of the change, the id, and that of the account. */
export const PREDICTIONS_CHANNEL = 'sluice_predictions'

/** The limits of predictions of an account over all processes. Each function is its own transaction. */
export const PREDICTION_FUNCTIONS = `
  -- Predictions that are admitted at this moment. What its process could not remove counts for ten minutes.
  CREATE TABLE prediction_places (
    id text COLLATE "C" PRIMARY KEY,
    account_id text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    at timestamptz NOT NULL
  );
  CREATE INDEX prediction_places_of_account ON prediction_places (account_id);

  CREATE FUNCTION take_prediction_place(of_process bigint, of_account text, of_id text, most bigint) RETURNS boolean
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_account, 20));
    DELETE FROM prediction_places AS p
      WHERE p.account_id = of_account AND (p.at < clock_timestamp() - interval '10 minutes'
        OR NOT EXISTS (SELECT FROM processes AS o WHERE o.id = p.process AND o.ended_at IS NULL));
    IF (SELECT (SELECT count(*) FROM predictions WHERE account_id = of_account AND completed_at IS NULL)
        + (SELECT count(*) FROM prediction_places WHERE account_id = of_account)) >= most THEN
      RETURN false;
    END IF;
    INSERT INTO prediction_places VALUES (of_id, of_account, of_process, clock_timestamp());
    RETURN true;
  END $$;

  -- True also for one that has its turn, or has ended.
  CREATE FUNCTION take_prediction_turn(of_process bigint, of_account text, of_id text, most bigint) RETURNS boolean
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM hold_process(of_process);
    PERFORM pg_advisory_xact_lock(hashtextextended(of_account, 20));
    IF NOT EXISTS (SELECT FROM predictions WHERE id = of_id AND completed_at IS NULL AND NOT has_turn) THEN
      RETURN true;
    END IF;
    IF (SELECT count(*) FROM predictions
        WHERE account_id = of_account AND completed_at IS NULL AND has_turn) >= most THEN
      RETURN false;
    END IF;
    UPDATE predictions SET has_turn = true WHERE id = of_id;
    RETURN true;
  END $$;

  -- Processes are notified of what they would find out by looking.
  CREATE FUNCTION prediction_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_notify('${PREDICTIONS_CHANNEL}', concat_ws(' ', CASE
      WHEN NEW.completed_at IS NOT NULL THEN 'ended'
      WHEN NEW.is_unwanted AND NOT OLD.is_unwanted THEN 'unwanted'
      ELSE 'changed' END, NEW.id, NEW.account_id));
    RETURN NULL;
  END $$;
  CREATE TRIGGER predictions_changed AFTER UPDATE OF completed_at, state, is_unwanted ON predictions
    FOR EACH ROW EXECUTE FUNCTION prediction_changed();
`
