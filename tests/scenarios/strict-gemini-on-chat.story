A strict request that its provider would not hear whole is refused in Google's shape.

-- client asks: POST /v1beta/models/acme-chat/strict-gemini-on-chat:generateContent x-sluice-strict=true
{"contents":[{"parts":[{"text":"Hello"}]}],"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}],"generationConfig":{"topK":3}}

-- provider answers: 200 application/json
{}

-- client hears: 400
{
 "error": {
  "code": 400,
  "message": "The request is strict, and no provider of this model supports every field: generationConfig.topK would be left out for acme-chat (chat completions has no such field); safetySettings would be left out for acme-chat (only the client's own protocol has it). Set x-sluice-strict: false to send it anyway.",
  "status": "INVALID_ARGUMENT",
  "details": [
   {
    "@type": "type.googleapis.com/google.rpc.BadRequest",
    "fieldViolations": [
     {
      "field": "generationConfig.topK",
      "description": "The request is strict, and no provider of this model supports every field: generationConfig.topK would be left out for acme-chat (chat completions has no such field); safetySettings would be left out for acme-chat (only the client's own protocol has it). Set x-sluice-strict: false to send it anyway."
     }
    ]
   },
   {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "UNSUPPORTED_PARAMETER",
    "domain": "sluice",
    "metadata": {
     "translation": "[{\"provider\":\"acme-chat\",\"field\":\"generationConfig.topK\",\"what\":\"left out\",\"why\":\"chat completions has no such field\"},{\"provider\":\"acme-chat\",\"field\":\"safetySettings\",\"what\":\"left out\",\"why\":\"only the client's own protocol has it\"}]"
    }
   },
   {
    "@type": "type.googleapis.com/google.rpc.RequestInfo",
    "requestId": "<id1>"
   }
  ]
 }
}
