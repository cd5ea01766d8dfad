A client that asks for the report in the body finds it in the last chunk of a stream, what the answer lost included.

-- client asks: POST /v1/chat/completions x-sluice-report=body
{"model":"acme-messages/report-chat-on-messages-stream","stream":true,"stream_options":{"include_usage":true},"max_tokens":64,"seed":7,"messages":[{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
{
 "model": "report-chat-on-messages-stream",
 "max_tokens": 64,
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
data: {"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"X"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

-- client hears: 200
data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/report-chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/report-chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/report-chat-on-messages-stream","usage":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"stop_sequence"}]}

data: {"id":"<id1>","object":"chat.completion.chunk","created":<time>,"model":"acme-messages/report-chat-on-messages-stream","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"sluice":{"translation":[{"field":"seed","what":"left out","why":"the provider has no such parameter"},{"field":"answer.stop_sequence","what":"left out","why":"the protocol does not say which one ended the answer"}]}}

data: [DONE]

-- headers
x-sluice-translation: [{"field":"seed","what":"left out","why":"the provider has no such parameter"}]
