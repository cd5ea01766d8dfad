A provider that refuses Sluice's own key is a 502 whose text holds no key.

-- client asks: POST /v1/messages
{"model":"acme-chat/error-key-refused","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}

-- provider chat.completions is asked: /chat/completions
{
 "model": "error-key-refused",
 "messages": [
  {
   "role": "user",
   "content": "Hello"
  }
 ],
 "max_tokens": 50
}

-- provider answers: 401 application/json
{"error":{"message":"Incorrect API key provided: sk-proj-abcdefghijklmnop.","type":"invalid_request_error","code":"invalid_api_key","param":null}}

-- client hears: 502
{
 "type": "error",
 "error": {
  "type": "api_error",
  "message": "The provider refused Sluice's credentials or account. The operator of this service must correct them.",
  "metadata": {
   "status": 401,
   "type": "invalid_request_error",
   "code": "invalid_api_key"
  }
 },
 "request_id": "<id1>"
}
