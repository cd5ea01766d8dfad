A strict request that loses nothing on its way is answered.

-- client asks: POST /v1/messages x-sluice-strict=true
{"model":"acme-generatecontent/strict-carries-whole","max_tokens":64,"temperature":0.5,"top_k":3,"stop_sequences":["x"],"system":"Be brief","messages":[{"role":"user","content":"Hello"}]}

-- provider generateContent is asked: /models/strict-carries-whole:generateContent
{
 "systemInstruction": {
  "parts": [
   {
    "text": "Be brief"
   }
  ]
 },
 "contents": [
  {
   "role": "user",
   "parts": [
    {
     "text": "Hello"
    }
   ]
  }
 ],
 "generationConfig": {
  "temperature": 0.5,
  "topK": 3,
  "maxOutputTokens": 64,
  "stopSequences": [
   "x"
  ]
 }
}

-- provider answers: 200 application/json
{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5},"modelVersion":"m","responseId":"r"}

-- client hears: 200
{
 "id": "<id1>",
 "type": "message",
 "role": "assistant",
 "model": "acme-generatecontent/strict-carries-whole",
 "content": [
  {
   "type": "text",
   "text": "Hi"
  }
 ],
 "stop_reason": "end_turn",
 "stop_sequence": null,
 "usage": {
  "input_tokens": 3,
  "cache_creation_input_tokens": 0,
  "cache_read_input_tokens": 0,
  "output_tokens": 2
 }
}

-- headers
x-sluice-translation: absent
