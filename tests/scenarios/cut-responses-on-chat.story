A Responses client hears `error` and then `response.failed` when its provider breaks off.

-- client asks: POST /v1/responses
{"model":"acme-chat/cut-responses-on-chat","stream":true,"store":false,"input":"Hello"}

-- provider chat.completions is asked: /chat/completions
-- provider answers: 200 text/event-stream
data: {"id":"up-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}

-- client hears: 200
