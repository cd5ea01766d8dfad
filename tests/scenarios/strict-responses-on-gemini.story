A strict request that its provider would not hear whole is refused in the shape of the responses API.

-- client asks: POST /v1/responses x-sluice-strict=true
{"model":"acme-generatecontent/strict-responses-on-gemini","input":"Hello","truncation":"auto","max_output_tokens":64,"parallel_tool_calls":false,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]}

-- provider answers: 200 application/json
{}

-- client hears: 400
{
 "error": {
  "message": "The request is strict, and no provider of this model supports every field: parallel_tool_calls would be left out for acme-generatecontent (the provider may always call several tools at once); truncation would be left out for acme-generatecontent (only the client's own protocol has it). Set x-sluice-strict: false to send it anyway.",
  "type": "invalid_request_error",
  "param": "parallel_tool_calls",
  "code": "unsupported_parameter",
  "metadata": {
   "translation": [
    {
     "provider": "acme-generatecontent",
     "field": "parallel_tool_calls",
     "what": "left out",
     "why": "the provider may always call several tools at once"
    },
    {
     "provider": "acme-generatecontent",
     "field": "truncation",
     "what": "left out",
     "why": "only the client's own protocol has it"
    }
   ]
  }
 }
}
