"""Calls a Sluice with the four official Python clients. Prints one JSON object with what each received.

Environment: SLUICE_URL, SLUICE_KEY.
"""

import io
import json
import os

import anthropic
import openai
import replicate
from google import genai

URL, KEY = os.environ["SLUICE_URL"], os.environ["SLUICE_KEY"]
PROMPT = "[[reply: four words of answer]]"


def openai_client():
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    messages = [{"role": "user", "content": PROMPT}]
    chat = client.chat.completions.create(model="sandbox/messages", messages=messages)
    stream = client.chat.completions.create(
        model="sandbox/gemini", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    response = client.responses.create(model="sandbox/chat", input=PROMPT)
    again = client.responses.retrieve(response.id)
    file = client.files.create(file=("note.txt", b"a note"), purpose="user_data")
    return {
        "chat": chat.choices[0].message.content,
        "usage": chat.usage.total_tokens > 0,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "stream_usage": chunks[-1].usage.total_tokens > 0,
        "responses": response.output_text,
        "stored": again.output_text,
        "file": client.files.content(file.id).read().decode(),
        "models": any(model.id == "sandbox/chat" for model in client.models.list()),
    }


def anthropic_client():
    client = anthropic.Anthropic(base_url=URL, api_key=KEY)
    messages = [{"role": "user", "content": PROMPT}]
    message = client.messages.create(model="sandbox/chat", max_tokens=100, messages=messages)
    with client.messages.stream(model="sandbox/gemini", max_tokens=100, messages=messages) as stream:
        text = "".join(stream.text_stream)
    return {
        "message": message.content[0].text,
        "stop_reason": message.stop_reason,
        "stream": text,
        "count": client.messages.count_tokens(model="sandbox/chat", messages=messages).input_tokens > 0,
        "models": any(model.id == "sandbox/chat" for model in client.models.list()),
    }


def genai_client():
    client = genai.Client(api_key=KEY, http_options={"base_url": URL})
    whole = client.models.generate_content(model="sandbox/messages", contents=PROMPT)
    stream = client.models.generate_content_stream(model="sandbox/chat", contents=PROMPT)
    return {
        "whole": whole.text,
        "stream": "".join(chunk.text or "" for chunk in stream),
        "count": client.models.count_tokens(model="sandbox/chat", contents=PROMPT).total_tokens > 0,
    }


def replicate_client():
    client = replicate.Client(api_token=KEY, base_url=URL)
    output = client.run("sandbox/chat", input={"prompt": PROMPT})
    prediction = client.predictions.create(version="sandbox/chat", input={"prompt": PROMPT})
    prediction.wait()
    file = client.files.create(file=io.BytesIO(b"a note"), filename="note.txt")
    return {
        "run": "".join(output),
        "prediction": [prediction.status, prediction.version],
        "reloaded": client.predictions.get(prediction.id).status,
        "file": [file.name, len(file.etag) > 0, client.files.get(file.id).size],
    }


CLIENTS = {
    "openai": openai_client,
    "anthropic": anthropic_client,
    "google-genai": genai_client,
    "replicate": replicate_client,
}
print(json.dumps({name: client() for name, client in CLIENTS.items()}))
