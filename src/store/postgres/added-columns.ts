import { USAGE_COLUMNS } from '../usage-columns.ts'

/** Usage buckets of the first version of the schema. */
export const FIRST_BUCKETS = USAGE_COLUMNS.slice(0, 11)

/** Processes of the first version write rows without these columns. */
const LATER_BUCKETS = USAGE_COLUMNS.slice(FIRST_BUCKETS.length)
  .map((column) => `ADD COLUMN ${column} bigint NOT NULL DEFAULT 0`)
  .join(',\n    ')

/** The buckets of images, cached audio, video and image tools; and which responses ran in the background. */
export const ADDED_COLUMNS = `
  ALTER TABLE generations
    ${LATER_BUCKETS};
  ALTER TABLE usage_hours
    ${LATER_BUCKETS};

  -- Their providers worked on them after the request, or do so still. Of those that have ended, it is not known.
  ALTER TABLE responses ADD COLUMN is_background boolean NOT NULL DEFAULT false;
  UPDATE responses SET is_background = true WHERE upstream IS NOT NULL;
  CREATE INDEX responses_in_background ON responses (id) WHERE is_background;
  CREATE INDEX responses_in_background_of_account ON responses (account_id, id) WHERE is_background;
`
