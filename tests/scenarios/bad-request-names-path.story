A wrong field is refused by its path, before any provider is asked.

-- client asks: POST /v1/chat/completions
{"model":"acme-chat/bad-request-names-path","messages":[{"role":"user","content":"Hi"},{"role":"function","name":"f","content":"x"}]}

-- client hears: 400
