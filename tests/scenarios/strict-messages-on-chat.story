A strict request that its provider would not hear whole is refused in Anthropic's shape.

-- client asks: POST /v1/messages x-sluice-strict=true
{"model":"acme-chat/strict-messages-on-chat","max_tokens":64,"top_k":3,"messages":[{"role":"user","content":[{"type":"text","text":"Hello","cache_control":{"type":"ephemeral"}}]}]}

-- provider answers: 200 application/json
{}

-- client hears: 400
{
 "type": "error",
 "error": {
  "type": "invalid_request_error",
  "message": "The request is strict, and no provider of this model supports every field: top_k would be left out for acme-chat (chat completions has no such field); messages[0].content[0].cache_control would be left out for acme-chat (the provider has no cache marks: it caches by itself). Set x-sluice-strict: false to send it anyway.",
  "metadata": {
   "translation": [
    {
     "provider": "acme-chat",
     "field": "top_k",
     "what": "left out",
     "why": "chat completions has no such field"
    },
    {
     "provider": "acme-chat",
     "field": "messages[0].content[0].cache_control",
     "what": "left out",
     "why": "the provider has no cache marks: it caches by itself"
    }
   ]
  }
 },
 "request_id": "<id1>"
}
