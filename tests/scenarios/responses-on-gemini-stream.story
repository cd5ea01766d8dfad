A Responses client streams from a Google provider: the whole list of events in the official order.

-- client asks: POST /v1/responses
{"model":"acme-generatecontent/responses-on-gemini-stream","stream":true,"store":false,"instructions":"Be brief.","input":"Weather in Paris?","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]}

-- provider generateContent is asked: /models/responses-on-gemini-stream:streamGenerateContent?alt=sse
{
 "systemInstruction": {
  "parts": [
   {
    "text": "Be brief."
   }
  ]
 },
 "contents": [
  {
   "role": "user",
   "parts": [
    {
     "text": "Weather in Paris?"
    }
   ]
  }
 ],
 "tools": [
  {
   "functionDeclarations": [
    {
     "name": "get_weather",
     "parametersJsonSchema": {
      "type": "object",
      "properties": {
       "city": {
        "type": "string"
       }
      }
     }
    }
   ]
  }
 ]
}

-- provider answers: 200 text/event-stream
data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Looking","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"g","responseId":"r1"}\r\n\r\ndata: {"candidates":[{"content":{"role":"model","parts":[{"text":"One moment."}]},"index":0}],"modelVersion":"g","responseId":"r1"}\r\n\r\ndata: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":19},"modelVersion":"g","responseId":"r1"}\r\n\r\n

-- client hears: 200
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":null,"status":"in_progress","background":false,"content_filters":[],"error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"max_tool_calls":null,"model":"acme-generatecontent/responses-on-gemini-stream","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":null,"status":"in_progress","background":false,"content_filters":[],"error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"max_tool_calls":null,"model":"acme-generatecontent/responses-on-gemini-stream","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"<id2>","type":"reasoning","summary":[]}}

event: response.reasoning_summary_part.added
data: {"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"<id2>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"<id2>","output_index":0,"summary_index":0,"delta":"Looking"}

event: response.reasoning_summary_text.done
data: {"type":"response.reasoning_summary_text.done","sequence_number":5,"item_id":"<id2>","output_index":0,"summary_index":0,"text":"Looking"}

event: response.reasoning_summary_part.done
data: {"type":"response.reasoning_summary_part.done","sequence_number":6,"item_id":"<id2>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Looking"}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"<id2>","type":"reasoning","summary":[{"type":"summary_text","text":"Looking"}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"<id3>","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":9,"item_id":"<id3>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":10,"item_id":"<id3>","output_index":1,"content_index":0,"delta":"One moment.","logprobs":[]}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":11,"item_id":"<id3>","output_index":1,"content_index":0,"text":"One moment.","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":12,"item_id":"<id3>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"One moment.","annotations":[],"logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"id":"<id3>","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"One moment.","annotations":[],"logprobs":[]}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"id":"<id4>","type":"function_call","status":"in_progress","call_id":"call_r1_0","name":"get_weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":15,"item_id":"<id4>","output_index":2,"delta":"{\"city\":\"Paris\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":16,"item_id":"<id4>","output_index":2,"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":17,"output_index":2,"item":{"id":"<id4>","type":"function_call","status":"completed","call_id":"call_r1_0","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":18,"output_index":3,"item":{"id":"<id5>","type":"reasoning","summary":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":19,"output_index":3,"item":{"id":"<id5>","type":"reasoning","summary":[],"encrypted_content":"c2xjMQBPLU9QUW4xVUhIS2gAYWNtZS1nZW5lcmF0ZWNvbnRlbnQAcmVzcG9uc2VzLW9uLWdlbWluaS1zdHJlYW0AAHBhcnQAY2FsbF9yMV8wAGMybG4="}}

event: response.completed
data: {"type":"response.completed","sequence_number":20,"response":{"id":"<id1>","object":"response","created_at":<time>,"completed_at":<time>,"status":"completed","background":false,"content_filters":[],"error":null,"incomplete_details":null,"instructions":"Be brief.","max_output_tokens":null,"max_tool_calls":null,"model":"acme-generatecontent/responses-on-gemini-stream","output":[{"id":"<id2>","type":"reasoning","summary":[{"type":"summary_text","text":"Looking"}]},{"id":"<id3>","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"One moment.","annotations":[],"logprobs":[]}]},{"id":"<id4>","type":"function_call","status":"completed","call_id":"call_r1_0","name":"get_weather","arguments":"{\"city\":\"Paris\"}"},{"id":"<id5>","type":"reasoning","summary":[],"encrypted_content":"c2xjMQBPLU9QUW4xVUhIS2gAYWNtZS1nZW5lcmF0ZWNvbnRlbnQAcmVzcG9uc2VzLW9uLWdlbWluaS1zdHJlYW0AAHBhcnQAY2FsbF9yMV8wAGMybG4="}],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_retention":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}],"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0,"web_search":0},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":19},"user":null,"metadata":{}}}
