"""Messages as they were: images, sound, files, calls of tools with their results, thinking, and what repeats."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from typing import Any, Final

import pytest
from playwright.async_api import Locator, expect

from tests.support.explorer import Explorer

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
Message = dict[str, Any]


def _png(width: int, height: int) -> bytes:
    """A picture of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x08\x70\x68" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _wav() -> bytes:
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 836, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 800
    )
    return header + bytes(800)


PNG: Final = base64.b64encode(_png(60, 30)).decode()
WAV: Final = base64.b64encode(_wav()).decode()
SVG: Final = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>").decode()
PDF: Final = base64.b64encode(b"%PDF-1.7 not really").decode()

IMAGES: Final[dict[str, Message]] = {
    "OpenAI": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
    "OpenAI Responses": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    "GenAI": {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG},
    "Anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    "OpenInference": {"type": "image", "image": {"image": {"url": f"data:image/png;base64,{PNG}"}}},
    "AI SDK": {"type": "file", "mediaType": "image/png", "data": PNG},
    "Gemini": {"inline_data": {"mime_type": "image/png", "data": PNG}},
    "MCP": {"type": "image", "mimeType": "image/png", "data": PNG},
    "said to be another type": {"type": "blob", "mime_type": "image/svg+xml", "content": PNG},
}
SOUNDS: Final[dict[str, Message]] = {
    "OpenAI": {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
    "GenAI": {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": WAV},
    "MCP": {"type": "audio", "mimeType": "audio/wav", "data": WAV},
}
REMOTE: Final[dict[str, Message]] = {
    "OpenAI": {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}},
    "GenAI": {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://pictures.example/cat.png"},
    "Anthropic": {"type": "image", "source": {"type": "url", "url": "https://pictures.example/cat.png"}},
}
INERT: Final[dict[str, Message]] = {
    "an SVG": {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{SVG}"}},
    "an SVG that is said to be a PNG": {"type": "blob", "mime_type": "image/png", "content": SVG},
    "HTML": {"type": "image_url", "image_url": {"url": "data:text/html,<script>alert(1)</script>"}},
    "a script": {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
    "a picture of 3.6 billion pixels": {
        "type": "blob", "mime_type": "image/png",
        "content": base64.b64encode(_png(1, 1).replace(struct.pack(">II", 1, 1), struct.pack(">II", 60_000, 60_000))).decode(),
    },
}  # fmt: skip


def _span(trace: str, number: int, inputs: list[Message], outputs: list[Message], **members: Any) -> dict[str, Any]:
    data = {"inputs": {"messages": inputs}, "outputs": {"messages": outputs}}
    ag = {"type": {"span": "chat"}, "data": data, **members}
    start = f"2026-01-09T03:00:{number:02}Z"
    return {
        "trace_id": trace * 16, "span_id": f"{trace}{number:014x}", "span_name": f"chat {number}", "span_type": "chat",
        "start_time": start, "end_time": start.replace("Z", ".5Z"), "attributes": {"ag": ag},
    }  # fmt: skip


def _send(explorer: Explorer, *spans: dict[str, Any]) -> None:
    explorer.stack.ask("/tracing/spans/ingest", {"spans": list(spans)})
    for span in spans:
        path = f"/spans/{span['trace_id']}/{span['span_id']}"
        explorer.stack.ask_until(path, None, lambda answer: answer["count"] == 1)


async def _open(explorer: Explorer, span: dict[str, Any]) -> Locator:
    await explorer.open(f"traces/{span['trace_id']}", span=span["span_id"])
    await expect(explorer.page.locator(".conversation .message").first).to_be_visible()
    return explorer.page.locator(".conversation")


async def _open_parts(explorer: Explorer, trace: str, parts: dict[str, Message]) -> Locator:
    """Open a message with these parts, and a text behind each."""
    content = [part for name, sent in parts.items() for part in (sent, {"type": "text", "text": f"({name})"})]
    span = _span(trace, 1, [{"role": "user", "content": "Look."}], [{"role": "assistant", "parts": content}])
    _send(explorer, span)
    conversation = await _open(explorer, span)
    for name in parts:
        await expect(conversation.get_by_text(f"({name})", exact=True)).to_be_visible()
    return conversation


async def test_images_of_every_spelling_are_shown(explorer: Explorer):
    conversation = await _open_parts(explorer, "c1", IMAGES)
    images = conversation.locator("img")
    await expect(images).to_have_count(len(IMAGES))
    for image in await images.all():
        await image.scroll_into_view_if_needed()
        await expect(image).to_have_js_property("naturalWidth", 60)
        assert (await image.get_attribute("width"), await image.get_attribute("height")) == ("60", "30")
    await expect(conversation.locator(".media figcaption").first).to_contain_text("image/png, 60 × 30")


TEXT: Final[Message] = {"type": "text", "text": "Look."}
OF_INPUT: Final = "llm.input_messages.0.message"
OTLP: Final[dict[str, dict[str, str]]] = {
    "OpenTelemetry's GenAI": {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [IMAGES["GenAI"]]}]),
    },
    "OpenLLMetry, of OpenAI": {
        "llm.request.type": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": json.dumps([TEXT, IMAGES["OpenAI"]]),
    },
    "OpenLLMetry, of Anthropic": {
        "llm.request.type": "chat", "gen_ai.request.model": "claude", "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": json.dumps([TEXT, IMAGES["Anthropic"]]),
    },
    "OpenInference": {
        "openinference.span.kind": "LLM", f"{OF_INPUT}.role": "user",
        f"{OF_INPUT}.contents.0.message_content.type": "image",
        f"{OF_INPUT}.contents.0.message_content.image.image.url": f"data:image/png;base64,{PNG}",
    },
}  # fmt: skip
"""Attributes of a span with an image, as instrumentations write them."""


async def test_images_arrive_from_instrumentations(explorer: Explorer):
    spans = []
    for number, attributes in enumerate(OTLP.values(), 1):
        pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
        ids = {"traceId": "cd" * 16, "spanId": f"cd{number:014x}"}
        times = {"startTimeUnixNano": "1767927600000000000", "endTimeUnixNano": "1767927601000000000"}
        spans.append({**ids, **times, "name": "chat", "kind": 3, "attributes": pairs})
    explorer.stack.ask("/otlp/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    for number, name in enumerate(OTLP, 1):
        path = f"/spans/{'cd' * 16}/cd{number:014x}"
        explorer.stack.ask_until(path, None, lambda answer: answer["count"] == 1)
        conversation = await _open(explorer, {"trace_id": "cd" * 16, "span_id": f"cd{number:014x}"})
        await expect(conversation.locator("img"), name).to_have_js_property("naturalWidth", 60)


async def test_sounds_can_be_played(explorer: Explorer):
    conversation = await _open_parts(explorer, "c2", SOUNDS)
    sounds = conversation.locator("audio")
    await expect(sounds).to_have_count(len(SOUNDS))
    for sound in await sounds.all():
        await sound.evaluate("sound => sound.load()")
        await sound.evaluate(
            "sound => new Promise((done, fail) => { sound.preload = 'auto'; sound.onloadeddata = done; sound.onerror = fail; sound.load(); })"
        )


async def test_what_is_elsewhere_is_an_address(explorer: Explorer):
    conversation = await _open_parts(explorer, "c3", REMOTE)
    await expect(conversation.get_by_role("link")).to_have_text(["https://pictures.example/cat.png"] * len(REMOTE))
    await expect(conversation.get_by_text("not loaded")).to_have_count(len(REMOTE))
    assert await conversation.locator("img, audio").count() == 0


async def test_unsafe_media_stay_files_and_texts(explorer: Explorer):
    conversation = await _open_parts(explorer, "c4", INERT)
    assert await conversation.locator("img, audio, svg, script, a[href^='javascript'], a[href^='data']").count() == 0
    await expect(conversation.locator(".media-file")).to_have_count(len(INERT))


async def test_file_is_saved_under_its_name(explorer: Explorer):
    part = {"type": "file", "file": {"filename": "offer.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
    conversation = await _open_parts(explorer, "c5", {"OpenAI": part})
    await expect(conversation.locator(".media-file")).to_contain_text("offer.pdf application/pdf, 19 B")
    async with explorer.page.expect_download() as download:
        await conversation.get_by_role("button", name="Download").click()
    saved = await download.value
    assert saved.suggested_filename == "offer.pdf"
    saved_as = await saved.path()
    assert await asyncio.to_thread(saved_as.read_bytes) == base64.b64decode(PDF)


CALL: Final[Message] = {"id": "call-1", "name": "get_weather", "arguments": {"city": "Paris"}}
SYSTEM: Final[Message] = {"role": "system", "content": "Be brief."}
QUESTION: Final[Message] = {"role": "user", "content": "Is it sunny?"}
ASKING: Final[Message] = {"role": "assistant", "tool_calls": [CALL]}
RESULT: Final[Message] = {"role": "tool", "tool_call_id": "call-1", "content": "**sunny**, 21 degrees"}
ANSWER: Final[Message] = {"role": "assistant", "parts": [
    {"type": "reasoning", "content": "They *ask* about Paris."}, {"type": "reasoning", "content": ""},
    {"type": "text", "content": "Yes."}]}  # fmt: skip


async def test_call_and_result_of_a_tool_are_one_line_that_opens(explorer: Explorer):
    span = _span("c6", 1, [SYSTEM, QUESTION, ASKING, RESULT], [ANSWER])
    _send(explorer, span)
    conversation = await _open(explorer, span)
    await expect(conversation.locator(".message .role")).to_have_text(
        ["system", "user", "assistant", "assistant"], ignore_case=True
    )
    call = conversation.locator(".tool-call")
    await expect(call.locator("summary")).to_have_text('get_weather {"city":"Paris"} → **sunny**, 21 degrees')
    await expect(call.get_by_text("Arguments")).to_be_hidden()
    await call.locator("summary").press("Enter")
    await expect(call).to_contain_text("call-1")
    await expect(call.locator(".text")).to_have_text("**sunny**, 21 degrees")
    thinking = conversation.locator("details.reasoning")
    await expect(thinking.get_by_text("about Paris")).to_be_hidden()
    await thinking.get_by_text("Thinking").click()
    await expect(thinking.locator("em")).to_have_text("ask")
    await expect(conversation.get_by_text("its provider does not show what")).to_be_visible()


async def test_agent_shows_the_conversation_that_it_kept(explorer: Explorer):
    span = _span("ce", 1, [], [], type={"span": "agent"})
    span["attributes"]["ag"]["data"] = {
        "internals": {"messages": [SYSTEM, QUESTION, ASKING, RESULT]},
        "outputs": "*Sunny.*",
    }
    _send(explorer, span)
    conversation = await _open(explorer, span)
    await expect(conversation.locator(".tool-call summary")).to_contain_text("sunny")
    await expect(conversation.locator(".message.output em")).to_have_text("Sunny.")


async def test_results_are_paired_by_the_id_of_their_call(explorer: Explorer):
    second = {"id": "call-2", "name": "get_time", "arguments": "{}"}
    lost = {"role": "tool", "tool_call_id": "call-9", "content": "nobody asked"}
    messages = [
        QUESTION,
        {"role": "assistant", "tool_calls": [CALL, second]},
        {**RESULT, "tool_call_id": "call-2", "content": "noon"},
        RESULT,
        lost,
    ]
    span = _span("c7", 1, messages, [ANSWER])
    _send(explorer, span)
    conversation = await _open(explorer, span)
    await expect(conversation.locator(".tool-call summary")).to_have_text(
        ['get_weather {"city":"Paris"} → **sunny**, 21 degrees', "get_time {} → noon"]
    )
    await expect(conversation.locator(".role-tool")).to_have_count(1)
    await expect(conversation.locator(".role-tool")).to_contain_text("nobody asked")


async def test_messages_of_the_call_before_are_folded(explorer: Explorer):
    first = _span("c8", 1, [SYSTEM, QUESTION], [{**ASKING, "finish_reason": "tool_calls"}])
    second = _span("c8", 2, [SYSTEM, QUESTION, ASKING, RESULT], [ANSWER])
    last = {"role": "user", "content": "And tomorrow?"}
    third = _span(
        "c8", 3, [SYSTEM, QUESTION, ASKING, RESULT, ANSWER, last], [{"role": "assistant", "content": "Rain."}]
    )
    _send(explorer, first, second, third)
    conversation = await _open(explorer, second)
    await expect(conversation.get_by_role("button", name="2 messages as before")).to_be_visible()
    await expect(conversation.locator(".tool-call summary")).to_contain_text("sunny")
    await expect(conversation.get_by_text("Be brief.")).to_have_count(0)

    await _open(explorer, third)
    await conversation.get_by_role("button", name="5 messages as before").press("Enter")
    await expect(conversation.get_by_text("Be brief.")).to_be_visible()
    await conversation.get_by_role("button", name="5 messages as before").click()
    await expect(conversation.locator(".message")).to_have_count(2)

    await _open(explorer, first)
    await expect(conversation.get_by_role("button", name="as before")).to_have_count(0)
    await expect(conversation.get_by_text("Be brief.")).to_be_visible()


async def test_turns_of_a_session_show_what_is_new(explorer: Explorer):
    session = {"session": {"id": "weather-talk"}}
    last = {"role": "user", "content": "And tomorrow?"}
    rain = {"role": "assistant", "content": "Rain."}
    _send(
        explorer,
        _span("c9", 1, [SYSTEM, QUESTION], [ANSWER], **session),
        {**_span("ca", 2, [SYSTEM, QUESTION, ANSWER, last], [rain], **session)},
    )
    await explorer.open("sessions/weather-talk")
    turns = explorer.page.locator(".turn")
    await expect(turns).to_have_count(2)
    await expect(turns.first.get_by_role("button", name="1 message before this one")).to_be_visible()
    await expect(turns.last.get_by_role("button", name="3 messages as before")).to_be_visible()
    await expect(turns.last.locator(".message")).to_have_count(2)
    await turns.last.get_by_role("button", name="3 messages as before").click()
    await expect(turns.last.locator(".message")).to_have_count(5)


async def test_conversation_of_ten_thousand_messages_shows_the_last(explorer: Explorer):
    many = [{"role": "user", "content": f"message {number}"} for number in range(10_000)]
    span = _span("cb", 1, many, [ANSWER])
    _send(explorer, span)
    conversation = await _open(explorer, span)
    await expect(conversation.get_by_role("button", name="9,801 messages before these")).to_be_visible()
    assert await conversation.locator(".message").count() == 200
