What a provider's protocol cannot carry is told in a header.

-- client asks: POST /v1/chat/completions
{"model":"acme-messages/losses-told","max_tokens":64,"seed":7,"logit_bias":{"50256":-100},"messages":[{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
{
 "model": "losses-told",
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
 ]
}

-- provider answers: 200 application/json
{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello!"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}

-- client hears: 200
{
 "id": "<id1>",
 "object": "chat.completion",
 "created":<time>,
 "model": "acme-messages/losses-told",
 "choices": [
  {
   "index": 0,
   "message": {
    "role": "assistant",
    "content": "Hello!",
    "refusal": null
   },
   "logprobs": null,
   "finish_reason": "stop",
   "native_finish_reason": "end_turn"
  }
 ],
 "usage": {
  "prompt_tokens": 3,
  "completion_tokens": 2,
  "total_tokens": 5,
  "prompt_tokens_details": {
   "cached_tokens": 0
  },
  "completion_tokens_details": {
   "reasoning_tokens": 0
  }
 }
}

-- headers
x-sluice-translation: [{"field":"seed","what":"left out","why":"the provider has no such parameter"},{"field":"logit_bias","what":"left out","why":"the provider has no such parameter"}]
