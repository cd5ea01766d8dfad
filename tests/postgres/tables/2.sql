
  ALTER TABLE generations
    ADD COLUMN input_image_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_read_audio_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN output_video_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_input_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_input_image_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_output_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_output_image_tokens bigint NOT NULL DEFAULT 0;
  ALTER TABLE usage_hours
    ADD COLUMN input_image_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN cache_read_audio_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN output_video_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_input_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_input_image_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_output_tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_tool_output_image_tokens bigint NOT NULL DEFAULT 0;

  -- Their providers worked on them after the request, or do so still. Of those that have ended, it is not known.
  ALTER TABLE responses ADD COLUMN is_background boolean NOT NULL DEFAULT false;
  UPDATE responses SET is_background = true WHERE upstream IS NOT NULL;
  CREATE INDEX responses_in_background ON responses (id) WHERE is_background;
  CREATE INDEX responses_in_background_of_account ON responses (account_id, id) WHERE is_background;
