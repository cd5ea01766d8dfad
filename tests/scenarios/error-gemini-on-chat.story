A provider's 429 reaches a Google client in Google's shape, with the time to wait.

-- client asks: POST /v1beta/models/acme-chat/error-gemini-on-chat:generateContent
{"contents":[{"parts":[{"text":"Hello"}]}]}

-- provider chat.completions is asked: /chat/completions
{
 "model": "error-gemini-on-chat",
 "messages": [
  {
   "role": "user",
   "content": "Hello"
  }
 ]
}

-- provider answers: 429 application/json retry-after=7
{"error":{"message":"Slow down","type":"rate_limit_error","code":"rate_limit_exceeded","param":null}}

-- client hears: 429
{
 "error": {
  "code": 429,
  "message": "The provider limits the rate of requests. Its message: Slow down",
  "status": "RESOURCE_EXHAUSTED",
  "details": [
   {
    "@type": "type.googleapis.com/google.rpc.RetryInfo",
    "retryDelay": "7s"
   },
   {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "UPSTREAM_RATE_LIMITED",
    "domain": "sluice",
    "metadata": {
     "status": "429",
     "message": "Slow down",
     "type": "rate_limit_error",
     "code": "rate_limit_exceeded"
    }
   },
   {
    "@type": "type.googleapis.com/google.rpc.RequestInfo",
    "requestId": "<id1>"
   }
  ]
 }
}

-- headers
retry-after: 7
x-sluice-attempts: 1
x-sluice-provider: acme-chat
