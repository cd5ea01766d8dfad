A provider's stream that breaks off is an error for an OpenAI client, never a normal end.

-- client asks: POST /v1/chat/completions
{"model":"acme-messages/cut-chat-on-messages","stream":true,"messages":[{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
{
 "model": "cut-chat-on-messages",
 "max_tokens": 4096,
 "messages": [
  {
   "role": "user",
   "content": [
    {
     "type": "text",
     "text": "Hello"
    }
   ]
  }
 ],
 "stream": true
}

-- provider answers: 200 text/event-stream
event: message_start
data: {"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}

-- client hears: 200
data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/cut-chat-on-messages","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/cut-chat-on-messages","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/cut-chat-on-messages","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"message":"The provider's stream ended before its answer was complete.","type":"server_error","param":null,"code":"upstream_error"}}

data: {"error":{"message":"The provider's stream ended before its answer was complete.","type":"server_error","param":null,"code":"upstream_error"}}
