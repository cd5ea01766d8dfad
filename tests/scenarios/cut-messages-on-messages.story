The same on the passing lane: what came is passed on, then the failure is said in the protocol's own frame.

-- client asks: POST /v1/messages
{"model":"acme-messages/cut-messages-on-messages","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
{
 "model": "cut-messages-on-messages",
 "max_tokens": 50,
 "stream": true,
 "messages": [
  {
   "role": "user",
   "content": "Hello"
  }
 ]
}

-- provider answers: 200 text/event-stream
event: message_start
data: {"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

-- client hears: 200
event: message_start
data: {"type":"message_start","message":{"id":"<id1>","type":"message","role":"assistant","model":"acme-messages/cut-messages-on-messages","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: error
data: {"type":"error","error":{"type":"api_error","message":"The provider's stream ended before its answer was complete."}}
