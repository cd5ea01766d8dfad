A provider that refuses Sluice's own key is a 502 whose text holds no key.

-- client asks: POST /v1/messages
{"model":"acme-chat/error-key-refused","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}

-- provider chat.completions is asked: /chat/completions
-- provider answers: 401 application/json
{"error":{"message":"Incorrect API key provided: sk-proj-abcdefghijklmnop.","type":"invalid_request_error","code":"invalid_api_key","param":null}}

-- client hears: 502
