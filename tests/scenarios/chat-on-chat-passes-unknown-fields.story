Same protocol on both sides: fields that Sluice does not know travel both ways, and usage nobody asked for stays hidden.

-- client asks: POST /v1/chat/completions
{"model":"acme-chat/chat-on-chat-passes-unknown-fields","stream":true,"messages":[{"role":"user","content":"Hi"}],"seed":9007199254740993,"x_vendor":{"deep":[1.0,2]}}

-- provider chat.completions is asked: /chat/completions
{
 "stream_options": {
  "include_usage": true
 },
 "model": "chat-on-chat-passes-unknown-fields",
 "stream": true,
 "messages": [
  {
   "role": "user",
   "content": "Hi"
  }
 ],
 "seed": 9007199254740992,
 "x_vendor": {
  "deep": [
   1,
   2
  ]
 }
}

-- provider answers: 200 text/event-stream
: PROCESSING

data: {"id":"up-9","object":"chat.completion.chunk","created":5,"model":"big","vendor":{"n":1.50},"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}

data: {"id":"up-9","object":"chat.completion.chunk","created":5,"model":"big","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"up-9","object":"chat.completion.chunk","created":5,"model":"big","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}

data: [DONE]

-- client hears: 200
data: {"id":"<id1>","object":"chat.completion.chunk","created":5,"model":"acme-chat/chat-on-chat-passes-unknown-fields","vendor":{"n":1.50},"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":5,"model":"acme-chat/chat-on-chat-passes-unknown-fields","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]
