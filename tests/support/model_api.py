"""A stand-in for model APIs on loopback, each with one answer and its tokens: OpenAI's chat completions, also streamed,
and responses, and the stream of Anthropic's messages.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = "Hello, Ada!"
MODEL = "gpt-4o-mini-2024-07-18"
PROMPT_TOKENS, COMPLETION_TOKENS = 9, 4


@contextmanager
def serving_model_api() -> Iterator[str]:
    """The base address of the API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path == "/v1/messages":
            self._send(200, "text/event-stream", _message_stream(request["model"]))
            return
        if path == "/v1/chat/completions" and request.get("stream"):
            self._send(200, "text/event-stream", _chat_stream())
            return
        answer = _ANSWERS.get(path)
        if path == "/v1/chat/completions" and request.get("tool_choice") not in (None, "auto", "none"):
            answer = _with_tool_call(request["tools"][-1]["function"]["name"])
        body = json.dumps(answer or {"error": {"message": f"no such path: {path}"}}).encode()
        self._send(200 if answer else 404, "application/json", body)

    def do_HEAD(self) -> None:
        self._send(200, "text/plain", b"")

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


_ANSWERS = {
    "/v1/chat/completions": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    },
    "/v1/responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_780_000_000,
        "status": "completed",
        "model": MODEL,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
            }
        ],
        "usage": {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": COMPLETION_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    },
}


def _with_tool_call(name: str) -> dict[str, Any]:
    """Return the chat completion of a request that demands a tool: it calls one with the text as its ``answer``."""
    function = {"name": name, "arguments": json.dumps({"answer": TEXT})}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {**_ANSWERS["/v1/chat/completions"], "choices": [choice]}


def _chat_stream() -> bytes:
    """Return the chunks of the chat completion, the last with its tokens."""
    whole = _ANSWERS["/v1/chat/completions"]
    common = {**whole, "object": "chat.completion.chunk", "usage": None}
    said = {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks = [
        {**common, "choices": [said]},
        {**common, "choices": [ended]},
        {**common, "choices": [], "usage": whole["usage"]},
    ]
    return "".join(f"data: {text}\n\n" for text in [*map(json.dumps, chunks), "[DONE]"]).encode()


def _message_stream(model: str) -> bytes:
    """Return the events of Anthropic's API for one message."""
    usage = {"input_tokens": PROMPT_TOKENS, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": COMPLETION_TOKENS}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
