A wrong field is refused by its path, before any provider is asked.

-- client asks: POST /v1/chat/completions
{"model":"acme-chat/bad-request-names-path","messages":[{"role":"user","content":"Hi"},{"role":"function","name":"f","content":"x"}]}

-- client hears: 400
{
 "error": {
  "message": "messages[1].role: must not be 'function': answer tool calls with role 'tool' and a tool_call_id",
  "type": "invalid_request_error",
  "param": "messages[1].role",
  "code": "invalid_request"
 }
}
