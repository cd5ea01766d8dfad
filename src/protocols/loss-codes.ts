/** The treatment of a value that could not be carried unchanged. */
export type LossEffect = 'dropped' | 'approximated'

/**
 * Stable codes of everything that a translation between protocols can lose, with the effect and the default reason. A
 * client can act on a code; docs/translation.md lists this table.
 */
export const LOSS_CODES = {
  // Request: settings and fields
  unsupported_field: ['dropped', 'the target protocol has no such field'],
  unsupported_by_model: ['dropped', 'the model does not accept it'],
  unsupported_by_provider: ['dropped', 'the provider does not accept it'],
  unsupported_combination: ['dropped', 'the provider does not accept it together with another field of this request'],
  native_field: ['dropped', "only the client's own protocol has this field"],
  value_adjusted: ['approximated', 'replaced by the nearest value that is accepted'],
  value_hashed: ['approximated', 'replaced by a hash, since it is too long'],
  limit_required: ['approximated', 'the provider requires an output limit'],
  limit_lowered: ['approximated', 'the account cannot pay for a higher output limit, or the provider allows none'],
  // Request: reasoning
  reasoning_unsupported: ['dropped', 'the model does not reason'],
  reasoning_not_possible: ['dropped', 'the model cannot reason in this request'],
  reasoning_adjusted: ['approximated', 'the model reasons by its own default'],
  effort_adjusted: ['approximated', 'replaced by the nearest reasoning effort of the model'],
  effort_as_budget: ['approximated', 'the model takes a budget instead of an effort'],
  budget_as_effort: ['approximated', 'the provider takes an effort instead of a budget'],
  budget_adjusted: ['approximated', 'replaced by the nearest budget that is accepted'],
  // Request: tools and output formats
  tool_native: ['dropped', 'the provider has no such tool'],
  tool_renamed: ['approximated', 'the provider does not accept the tool name'],
  tool_choice_dropped: ['dropped', 'there are no tools to choose from'],
  tool_choice_adjusted: ['approximated', 'the model decides whether it calls a tool'],
  tool_grammar_described: ['approximated', 'the grammar is described in the prompt and not enforced'],
  strict_not_enforced: ['dropped', 'calls are not held to the schema'],
  schema_adjusted: ['approximated', 'the provider does not know every keyword of the schema'],
  schema_not_enforced: ['approximated', 'the response is not held to the schema'],
  format_described: ['approximated', 'the output format is described in the prompt'],
  stop_applied_here: ['approximated', 'Sluice ends the response at the stop sequence; tokens after it are billed'],
  // Request: conversation
  instructions_moved: ['approximated', 'instructions are sent as text of the user'],
  turn_added: ['approximated', 'the provider requires a turn that the conversation does not have'],
  turn_reordered: ['approximated', 'the provider requires another order'],
  prefill_unsupported: ['approximated', 'the model does not continue a response that was begun'],
  content_native: ['dropped', "only the client's own protocol has this content"],
  content_dropped: ['dropped', 'the target protocol has no such content in this position'],
  content_as_text: ['approximated', 'sent as text'],
  media_moved: ['approximated', 'the media follow in a user message'],
  detail_adjusted: ['approximated', 'the provider has its own levels of resolution'],
  reasoning_dropped: ['dropped', 'only the model that issued it accepts earlier reasoning'],
  signature_dropped: ['dropped', 'another model issued it'],
  signature_replaced: ['approximated', 'a placeholder replaces a signature that is missing or of another model'],
  arguments_dropped: ['dropped', 'the arguments are not a JSON object'],
  result_added: ['approximated', 'the provider requires a result for each tool call'],
  citations_dropped: ['dropped', 'the provider accepts only its own citations'],
  cache_breakpoint_dropped: ['dropped', 'the provider has no cache breakpoints; it caches without them'],
  cache_breakpoint_adjusted: ['approximated', 'the provider accepts fewer cache breakpoints'],
  cache_lifetime_adjusted: ['approximated', 'the provider decides how long it keeps a cached prefix'],
  // Response
  response_content_dropped: ['dropped', "the client's protocol has no such content"],
  response_content_native: ['dropped', "only the provider's own protocol has this content"],
  response_content_as_text: ['approximated', 'sent as text'],
  response_field_dropped: ['dropped', "the client's protocol has no such field"],
  response_field_adjusted: ['approximated', "the client's protocol has a less exact field"],
  response_citation_dropped: ['dropped', "the client's protocol cannot represent the citation"],
  response_citation_adjusted: ['approximated', "the client's protocol represents less of the citation"],
  response_finish_adjusted: ['approximated', "the client's protocol has no such finish reason"],
  response_usage_adjusted: ['approximated', "the client's protocol counts fewer kinds of tokens"],
  cut_at_balance: ['dropped', 'no more could be held for the response: it ended as at its output limit'],
  response_images_missing: ['approximated', 'the provider made fewer images than requested'],
} as const satisfies Record<string, readonly [effect: LossEffect, reason: string]>

export type LossCode = keyof typeof LOSS_CODES
