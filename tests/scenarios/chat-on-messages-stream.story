An OpenAI client streams from an Anthropic provider: thinking with a signature becomes reasoning details that can be replayed.

-- client asks: POST /v1/chat/completions
{"model":"acme-messages/chat-on-messages-stream","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
{
 "model": "chat-on-messages-stream",
 "max_tokens": 4096,
 "system": [
  {
   "type": "text",
   "text": "Be brief."
  }
 ],
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
data: {"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":0,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"A greeting."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmVk"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: ping
data: {"type": "ping"}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hello!"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}

event: message_stop
data: {"type":"message_stop"}

-- client hears: 200
data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"reasoning":"A greeting.","reasoning_details":[{"type":"reasoning.text","text":"A greeting.","format":"unknown","index":0}]},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"","signature":"c2xjMQBGaFZDbXpjY1VJbGwAYWNtZS1tZXNzYWdlcwBjaGF0LW9uLW1lc3NhZ2VzLXN0cmVhbQAAYzJsbmJtVms=","format":"unknown","index":0}]},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"content":"Hello!"},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"end_turn"}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/chat-on-messages-stream","choices":[],"usage":{"prompt_tokens":15,"completion_tokens":12,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]
