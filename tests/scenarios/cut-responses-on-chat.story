A Responses client hears `error` and then `response.failed` when its provider breaks off.

-- client asks: POST /v1/responses
{"model":"acme-chat/cut-responses-on-chat","stream":true,"store":false,"input":"Hello"}

-- provider chat.completions is asked: /chat/completions
{
 "model": "cut-responses-on-chat",
 "messages": [
  {
   "role": "user",
   "content": "Hello"
  }
 ],
 "stream": true,
 "stream_options": {
  "include_usage": true
 }
}

-- provider answers: 200 text/event-stream
data: {"id":"up-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}

-- client hears: 200
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":null,"status":"in_progress","background":false,"content_filters":[],"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"acme-chat/cut-responses-on-chat","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":null,"status":"in_progress","background":false,"content_filters":[],"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"acme-chat/cut-responses-on-chat","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"<id2>","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"<id2>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"<id2>","output_index":0,"content_index":0,"delta":"Hel","logprobs":[]}

event: error
data: {"type":"error","sequence_number":5,"code":"server_error","message":"The provider's stream ended before its answer was complete.","param":null}

event: response.failed
data: {"type":"response.failed","sequence_number":6,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":null,"status":"failed","background":false,"content_filters":[],"error":{"code":"server_error","message":"The provider's stream ended before its answer was complete."},"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"acme-chat/cut-responses-on-chat","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}}
