"""What the model provider gave in the traces of the samples (``tests/data/samples``), counted by hand.

Prompt and completion tokens of the model calls of each trace, added up from the raw records, as the provider that stood in
for the real one gave them; a stream of an older OpenLLMetry says none.
"""

from __future__ import annotations

from typing import Final

GIVEN: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "agenta-litellm": {"fe379d51": (27, 16)},
    "adk": {"56ace4a3": (321 + 322, 50 + 50), "4929c533": (323, 50), "8859bd12": (324, 50)},  # 10 of 50: thoughts
    "adk-2": {
        "207511d1": (364 + 365, 50 + 50),
        "d80b71aa": (366, 50),
        "1a64b13a": (367 + 368, 50 + 50),
        "976d542f": (369, 50),
    },
    "agents-openinference": {
        "2307eea5": (2002 + 2003 + 2004, 3 * 80),
        "77a38b03": (2005 + 2006, 80 + 80),
        "7c8207a9": (2007 + 2008, 80 + 80),
    },
    "agent-framework": {"a0f8d501": (1001 + 1002, 50 + 50), "9422dfdb": (1003 + 1004, 50 + 50)},
    "google-genai-content": {"08b8ffc7": (402, 50 + 30)},  # the thoughts; the SDK reports the last of two calls
    "google-genai-openinference": {"c4f93286": (402, 50 + 30)},
    "haystack": {"7a1e57d0": (1003, 50)},  # calls inside of an agent are not reported, nor tokens of embeddings
    "instructor": {"62207f59": (1001 + 1002, 50 + 50)},
    "llama-index": {"82e69b36": (1001 + 1002, 50 + 50), "e7ec940f": (1003, 50)},
    "mlflow": {"aa47516f": (1001 + 1002, 50 + 50)},
    "strands-latest": {"a3e6ff1b": (1001 + 1002, 50 + 50)},
    "smolagents": {"37e86d58": (1001 + 1002, 50 + 50)},
    "vercel-ai-v6": {
        "43faacc1": (1001 + 1002, 50 + 50),
        "05b6b9d9": (1003, 50),
        "8ad402f8": (104, 50),  # 64, 30 from the cache, 10 written to it
        "c58b1fff": (6, 0),
    },
    "agno-openinference": {"690f1a90": (1096 + 1097, 50 + 50)},
    "google-genai-otel": {"ab4e962a": (408, 50), "cf713c54": (409, 50)},
    "parallel-genai": {"647a0d78": (1005, 50), "8d0661f4": (1006, 50)},
    "semantic-kernel": {"76cf1a28": (1088 + 1089, 50 + 50)},
    "claude-code": {"db59f212": (3383 + 3384, 60 + 60)},
    "strands": {"5ae08819": (1015 + 1016, 50 + 50), "acc18dbb": (1017, 50)},
    "crewai": {"0edb0aff": (1033 + 1034, 50 + 50)},
    "openlit": {"f5aa56e2": (1098, 50), "5ff4facb": (1099, 50), "0bd22104": (14, 0)},
    "agents-logfire": {"01a21abd": (2012 + 2013 + 2014, 3 * 80)},
    "agenta-sdk": {"2d3fdf8b": (42, 11), "a99af635": (11, 4)},
    "genai-openai-v2": {
        "48d26dba": (26, 9),
        "766473e9": (14, 20),
        "b3090861": (17 + 88, 12 + 17),  # a call that asks for a tool, and the one with its result
        "667452a7": (2, 0),
    },
    "genai-openai-v2-legacy": {"06cdf8d5": (14, 12), "676db4bd": (13, 12), "892e2a69": (3, 0)},
    "genai-openai-v2-older": {"535805be": (13, 15), "5d4984b3": (11, 13), "70824688": (16, 13)},
    "laminar-sdk": {"62ff29e8": (1046 + 1046, 50 + 50), "1ec076ab": (30, 8), "c1cc3155": (6, 0)},
    "langsmith-otel": {"1e97a987": (1049 + 1050, 50 + 50)},
    "langfuse-sdk": {
        "4b7867ef": (1046, 50),
        "55f612f4": (140, 10),  # 100, 40 from the cache
        "67399d27": (1046 + 1046, 50 + 50),
        "9e92141a": (30, 8),
        "14288730": (30, 8),
        "d30e5f81": (6, 0),
        "a358fde7": (140, 10),
    },
    "langgraph-rag": {"274d4537": (57, 9), "07b90117": (20 + 134, 15 + 11)},
    "litellm-otel": {
        "bf137077": (1085, 50),
        "1e5c6a76": (3386, 60),  # 186, 3000 from the cache, 200 written to it
        "11223b4e": (9, 5),
    },
    "openinference-anthropic": {
        "06b7e96a": (166, 22),  # 16, 120 from the cache, 30 written to it
        "4d187a94": (26, 42),
        "ca9219d7": (103, 14),
        "a5ed696a": (14, 46),
        "adb42ac7": (15, 25),
    },
    "openinference-openai": {
        "dfe8436c": (35, 23),
        "26d105e7": (18, 30),
        "38792589": (22 + 159, 28 + 20),
        "6a2222f4": (14, 0),
        "a7bb9fbb": (11, 18),
    },
    "openllmetry-classic": {"d22ac2aa": (14 + 87 + 43 + 25, 10 + 12 + 16)},
    "openllmetry-openai": {
        "2af95f11": (30, 17),
        "328476c4": (16, 31),
        "5a737eb3": (19 + 100, 23 + 13),
        "a343fb79": (5, 0),
        "b056c133": (7, 8),
        "bbce60a0": (21, 19),
    },
    "pydantic-ai-agent": {
        "3e62f5b2": (31 + 88 + 116, 7 + 6 + 6),
        "9ca966fa": (14, 17),
        "ddcd4b21": (30 + 108 + 172, 13 + 13 + 10),
        "d4e2a394": (11, 8),
    },
    "pydantic-ai-v1": {"bfc3b197": (27 + 96, 9 + 7), "a467fc7e": (126, 8)},
    "traceloop-sdk": {"c67f75d2": (14 + 37, 14 + 16), "07da4968": (14 + 90, 10 + 11), "a0466fe4": (13, 10)},
    "vercel-ai-v5": {
        "91177865": (29, 10),
        "e0f18d4f": (38, 14),
        "757667db": (17 + 96, 15 + 11),
        "f3dc84ff": (11, 16),
        "49a22b35": (3, 0),
        "4a913078": (25, 8),
    },
    "vercel-ai-v7": {
        "34e2fcce": (30, 10),
        "7bc0eac8": (13, 12),
        "678fc0d4": (14 + 97, 17 + 12),
        "56ca05ef": (12, 19),
        "a5f4af90": (4, 0),
        "94ee6ffc": (24, 14),
    },
}
"""Source → the beginning of a trace's id → its tokens of prompt and completion. Other traces used none."""
