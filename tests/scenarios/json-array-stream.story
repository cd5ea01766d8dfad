Google's stream without alt=sse is one JSON array.

-- client asks: POST /v1beta/models/acme-messages/json-array-stream:streamGenerateContent
{"contents":[{"parts":[{"text":"Hello"}]}]}

-- provider messages is asked: /messages
{
 "model": "json-array-stream",
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
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}

event: message_stop
data: {"type":"message_stop"}

-- client hears: 200
[
 {
  "candidates": [
   {
    "content": {
     "parts": [
      {
       "text": "Hello"
      }
     ],
     "role": "model"
    },
    "index": 0
   }
  ],
  "modelVersion": "acme-messages/json-array-stream",
  "createTime":<time>,
  "responseId": "<id1>"
 },
 {
  "candidates": [
   {
    "content": {
     "parts": [
      {
       "text": ""
      }
     ],
     "role": "model"
    },
    "index": 0,
    "finishReason": "STOP"
   }
  ],
  "usageMetadata": {
   "promptTokenCount": 10,
   "candidatesTokenCount": 12,
   "thoughtsTokenCount": 0,
   "cachedContentTokenCount": 0,
   "totalTokenCount": 22
  },
  "modelVersion": "acme-messages/json-array-stream",
  "createTime":<time>,
  "responseId": "<id1>"
 }
]
