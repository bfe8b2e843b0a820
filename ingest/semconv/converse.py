"""Content blocks of Bedrock's Converse API: objects with one member, whose name says what the block is, and no type."""

from __future__ import annotations

from typing import Any, Final

_BLOCKS: Final = frozenset({"text", "toolUse", "toolResult", "reasoningContent"})


def is_block(part: dict[str, Any]) -> bool:
    """Return whether a part is a block of text, a tool call, a tool's result or reasoning."""
    return len(part) == 1 and not _BLOCKS.isdisjoint(part)


def typed(part: dict[str, Any]) -> dict[str, Any]:
    """Return a block as a part with a type; anything else unchanged."""
    if not is_block(part):
        return part
    ((name, member),) = part.items()
    if name == "text":
        return {"type": "text", "content": member}
    if not isinstance(member, dict):
        return part
    if name == "toolUse":
        return {"type": "tool_use", **member, "id": member.get("toolUseId")}
    if name == "toolResult":
        return {"type": "tool_result", "id": member.get("toolUseId"), "content": member.get("content")}
    reasoning = member.get("reasoningText")
    return {"type": "reasoning", **reasoning} if isinstance(reasoning, dict) else part
