A strict request that its provider would not hear whole is refused before it is sent, in OpenAI's shape, with every field and why.

-- client asks: POST /v1/chat/completions x-sluice-strict=true
{"model":"acme-messages/strict-chat-on-messages","max_tokens":64,"seed":7,"logit_bias":{"50256":-100},"messages":[{"role":"user","content":"Hello"}]}

-- provider answers: 200 application/json
{}

-- client hears: 400
{
 "error": {
  "message": "The request is strict, and no provider of this model supports every field: seed would be left out for acme-messages (the provider has no such parameter); logit_bias would be left out for acme-messages (the provider has no such parameter). Set x-sluice-strict: false to send it anyway.",
  "type": "invalid_request_error",
  "param": "seed",
  "code": "unsupported_parameter",
  "metadata": {
   "translation": [
    {
     "provider": "acme-messages",
     "field": "seed",
     "what": "left out",
     "why": "the provider has no such parameter"
    },
    {
     "provider": "acme-messages",
     "field": "logit_bias",
     "what": "left out",
     "why": "the provider has no such parameter"
    }
   ]
  }
 }
}
