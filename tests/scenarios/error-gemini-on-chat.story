A provider's 429 reaches a Google client in Google's shape, with the time to wait.

-- client asks: POST /v1beta/models/acme-chat/error-gemini-on-chat:generateContent
{"contents":[{"parts":[{"text":"Hello"}]}]}

-- provider chat.completions is asked: /chat/completions
-- provider answers: 429 application/json retry-after=7
{"error":{"message":"Slow down","type":"rate_limit_error","code":"rate_limit_exceeded","param":null}}

-- client hears: 429
-- headers
retry-after: 7
x-sluice-attempts: 1
x-sluice-provider: acme-chat
