A Responses client streams from a Google provider: the whole list of events in the official order.

-- client asks: POST /v1/responses
{"model":"acme-generateContent/responses-on-gemini-stream","stream":true,"store":false,"instructions":"Be brief.","input":"Weather in Paris?","tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]}

-- provider generateContent is asked: /models/x
-- provider answers: 200 text/event-stream
data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Looking","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"g","responseId":"r1"}\r\n\r\ndata: {"candidates":[{"content":{"role":"model","parts":[{"text":"One moment."}]},"index":0}],"modelVersion":"g","responseId":"r1"}\r\n\r\ndata: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_weather","args":{"city":"Paris"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":19},"modelVersion":"g","responseId":"r1"}\r\n\r\n
-- client hears: 200
