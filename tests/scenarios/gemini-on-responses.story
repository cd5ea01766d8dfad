A Google client asks a Responses provider, not streamed: refusals and usage keep their meaning.

-- client asks: POST /v1/publishers/acme-responses/models/gemini-on-responses:generateContent
{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],"generationConfig":{"temperature":0,"maxOutputTokens":100}}

-- provider responses is asked: /responses
{
 "model": "gemini-on-responses",
 "input": [
  {
   "type": "message",
   "role": "user",
   "content": [
    {
     "type": "input_text",
     "text": "Hello"
    }
   ]
  }
 ],
 "max_output_tokens": 100,
 "temperature": 0,
 "store": false
}

-- provider answers: 200 application/json
{"id":"resp_up","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Thinking."}],"encrypted_content":"ZW5j"},{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi.","annotations":[]}]}],"usage":{"input_tokens":8,"input_tokens_details":{"cached_tokens":2},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":14}}

-- client hears: 200
{
 "candidates": [
  {
   "content": {
    "parts": [
     {
      "text": "Thinking.",
      "thought": true,
      "thoughtSignature": "c2xjMQB3Rnl5SXBWUndZT0YAYWNtZS1yZXNwb25zZXMAZ2VtaW5pLW9uLXJlc3BvbnNlcwAAWlc1ag=="
     },
     {
      "text": "Hi."
     }
    ],
    "role": "model"
   },
   "finishReason": "STOP",
   "index": 0
  }
 ],
 "usageMetadata": {
  "promptTokenCount": 8,
  "candidatesTokenCount": 2,
  "thoughtsTokenCount": 4,
  "cachedContentTokenCount": 2,
  "totalTokenCount": 14
 },
 "modelVersion": "acme-responses/gemini-on-responses",
 "createTime":<time>,
 "responseId": "<id1>"
}
