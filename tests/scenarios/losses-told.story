What a provider's protocol cannot carry is told in a header.

-- client asks: POST /v1/chat/completions
{"model":"acme-messages/losses-told","max_tokens":64,"seed":7,"logit_bias":{"50256":-100},"messages":[{"role":"user","content":"Hello"}]}

-- provider messages is asked: /messages
-- provider answers: 200 application/json
{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello!"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}

-- client hears: 200
-- headers
x-sluice-translation: ?
