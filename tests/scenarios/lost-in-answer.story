What an answer holds and its client's protocol cannot say is told in the header of a whole answer.

-- client asks: POST /v1/messages
{"model":"acme-responses/lost-in-answer","max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}

-- provider responses is asked: /responses
{
 "model": "lost-in-answer",
 "input": [
  {
   "type": "message",
   "role": "user",
   "content": [
    {
     "type": "input_text",
     "text": "Hello"
    }
   ]
  }
 ],
 "max_output_tokens": 64,
 "store": false
}

-- provider answers: 200 application/json
{"id":"resp_up","object":"response","created_at":1,"model":"m","status":"completed","output":[{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},{"type":"message","id":"msg_up","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi there","annotations":[{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":2}],"logprobs":[{"token":"Hi there","logprob":-0.1,"bytes":null,"top_logprobs":[]}]}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}

-- client hears: 200
{
 "id": "<id1>",
 "type": "message",
 "role": "assistant",
 "model": "acme-responses/lost-in-answer",
 "content": [
  {
   "type": "text",
   "text": "Hi",
   "citations": [
    {
     "type": "web_search_result_location",
     "url": "https://a.example",
     "title": "A",
     "cited_text": "",
     "encrypted_index": ""
    }
   ]
  },
  {
   "type": "text",
   "text": " there"
  }
 ],
 "stop_reason": "end_turn",
 "stop_sequence": null,
 "usage": {
  "input_tokens": 3,
  "cache_creation_input_tokens": 0,
  "cache_read_input_tokens": 0,
  "output_tokens": 2,
  "server_tool_use": {
   "web_search_requests": 1,
   "web_fetch_requests": 0
  }
 }
}

-- headers
x-sluice-translation: [{"field":"answer.web_search_call","what":"left out","why":"only the provider's own protocol has it"},{"field":"answer.logprobs","what":"left out","why":"the messages API has no log probabilities"}]
