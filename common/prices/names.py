"""The names under which a model may be in the price table.

A span names a model as its library does: ``openai/gpt-4o``, ``us.anthropic.claude-sonnet-4-5-20250929-v1:0``, an ARN of
Bedrock, ``models/gemini-2.0-flash-001``, ``ft:gpt-4o-mini-2024-07-18:org::id``. A row of the table stands for the
snapshots of its model, and for the same model behind a gateway or in a region, unless that has a row of its own. So the
names come from the most exact one to the name of the model alone.

A fine-tuned model has a price of its own: only rows that begin with ``ft:`` stand for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

SELF_HOSTED: Final = frozenset(
    {
        "hosted_vllm",
        "llama_cpp",
        "llamafile",
        "lm_studio",
        "lmstudio",
        "local",
        "localai",
        "ollama",
        "ollama_chat",
        "vllm",
    }
)
"""Prefixes of names, or providers, of self-hosted models: no list price applies to them."""

FINE_TUNED: Final = "ft:"
_TUNED_BY_GEMINI: Final = "tunedmodels"
"""The prefix that Gemini gives to a tuned model, whose name is the user's."""

_HOSTS: Final = {
    "aws.bedrock": "bedrock",
    "azure.ai.inference": "azure_ai",
    "azure.ai.openai": "azure",
    "fireworks": "fireworks_ai",
    "gcp.gemini": "gemini",
    "gcp.vertex_ai": "vertex_ai",
    "ibm.watsonx.ai": "watsonx",
    "mistral_ai": "mistral",
    "together": "together_ai",
    "x_ai": "xai",
}
"""Providers of spans, and how they are called at the beginning of a name; others are called the same."""

_REGION: Final = re.compile(r"^(?:us-gov|us|eu|apac|jp|au|ca|sa|uk|me|global)\.")
_MAKER: Final = re.compile(
    r"^(?:ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen"
    r"|writer|zai)\."
)
_SUFFIXES: Final = tuple(
    map(
        re.compile,
        (
            r":\d+k$",
            r":\d+$",
            r"-v\d+$",
            r"[-@](?:latest|default|\d{8})$|-\d{4}-\d{2}-\d{2}$|-\d{3}$",
            r"-v\d+$",
            r"-preview(?:-\d{2}-\d{2}(?:\d{2})?)?$",
        ),
    )
)
"""Suffixes of snapshots, from the end of a name: the context length and the version that one cloud puts there
(``-v1:0:28k``), a date or a number, the version that another cloud puts before the date (``-v2@20241022``), and the
mark of a preview.
"""


def names_of(model: str, provider: str = "") -> Iterator[str]:
    """Yield the names of a model in the order in which the table is searched, all in lower case.

    ``provider`` is that of the span; one that only names a framework adds names that no row has.
    """
    name = model.strip().lower()
    if provider:
        yield from _snapshots(f"{_HOSTS.get(provider, provider)}/{name}")
    yield from _snapshots(name)
    host, _, rest = name.partition("/")
    if host in SELF_HOSTED or host == _TUNED_BY_GEMINI:
        return
    while rest:
        name = rest
        yield from _snapshots(name)
        _, _, rest = name.partition("/")
    if name.startswith(FINE_TUNED):
        yield from _snapshots(FINE_TUNED + name.split(":")[1])
        return
    for prefix in (_REGION, _MAKER):
        shorter = prefix.sub("", name)
        if shorter != name:
            yield from _snapshots(name := shorter)


def without_snapshot(name: str) -> str:
    """Return the name of the model whose snapshot a name is; the name itself if it is none."""
    *_, shortest = _snapshots(name)
    return shortest


def _snapshots(name: str) -> Iterator[str]:
    """Yield a name, and what it is a snapshot of."""
    yield name
    for suffix in _SUFFIXES:
        shorter = suffix.sub("", name)
        if shorter != name:
            yield (name := shorter)
