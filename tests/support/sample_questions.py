"""What the questions of ``docs/instrumentations.md`` must find among all samples, read by hand from the raw records.

Per question, sample → ids of spans. Nothing here was taken from an answer: a span is on a list for what its instrumentation
wrote. Samples that are not named have none.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Spans: TypeAlias = dict[str, set[str]]

MODEL_CALLS: Final[Spans] = {
    "agent-framework-01": {"fc6f14eea79a741c", "af8662ae730356bb", "54a19988c2900922", "eeb8b50c98ea61f2"},
    "dspy-01": {"c4c30a878f0cbe40", "f9cb7c4d1deec04d"},  # the last: 429
    "google-genai-content-01": {"71c54d741c31f702", "cb3b4738b2f269fc"},  # the last: 429
    "google-genai-openinference-01": {"fc4f528077172a30", "2eccbe20c07f8c59"},  # the last: 429
    "haystack-01": {
        "2f00418c7b171c18",
        "07d062fc3a97f191",  # embeddings
        "aeb07879c932ae66",  # 429
    },
    "instructor-01": {"6f53557e66a36277", "330216c577875498", "fc3c1bf62b580968"},  # twice for one answer, and 429
    "llama-index-01": {
        *("b705cac31344e1fa", "e5f53af5cacbec95"),
        *("5c12595e71647cbd", "042c688b72ab97dd"),  # the preparation of a call, which the library calls `LLM` too
        "fb3f50d543ea1163",
        "9f6cd1edb28accbd",  # 429
    },
    "mlflow-01": {
        *("6ae24823a7b40bcf", "1a7b5536fc805b03"),
        "daef0769945dc347",  # 429
        "fcf5e03c1d1bcf42",  # embeddings
    },
    "smolagents-01": {"43a87c57b40d94aa", "57d3fc96b556827c"},
    "strands-latest-01": {"c23e3d29cf2e076b", "53984d0536902b5f"},
    "vercel-ai-v6-01": {
        *("af5495af0814bcd1", "64a12b4917fa8be3"),
        "503d09b59c6a3b09",  # streamed
        "055fd13ee5b805a5",  # Claude
        "d82d109cc53ddfb2",  # embeddings
        "b7f1361d0a04aa53",  # 429
    },
    "adk-01": {"7ba0294668aeb011", "c18ccd0e845b077b", "5cb28f348e877855", "0298e2de788a0604"},
    "adk-2-01": {
        "e73852d13ed3110f",
        "42b64bf87e652b4c",
        "a77e996f65bef35a",
        "ed954480703f3a95",
        "7c1a3e17f77d6aa3",
        "fe7e8dda86adf94c",
    },
    "agents-openinference-01": {
        "c0d003a0ee4bda5e",
        "875f19a1481fca8f",
        "4e1f6303d607826d",
        "a6b2dba2975fa9bf",
        "0b289ab4252b141e",
        "dfcae9a984b98516",
        "4525422c390e81ef",
        "f9e359b4071556f0",  # 429
    },
    "agno-openinference-01": {"08ab2f48145e7fe0", "324b3da278808c75"},
    "google-genai-otel-01": {"1a6156d0f7805b52", "27877166cf902a3d"},
    "parallel-genai-01": {"51a8371acde9335a", "0c0c46916ad28991"},
    "semantic-kernel-01": {"6250baae34214aa3", "6f670ae52909bfbf"},
    "agenta-litellm-01": {"c5a3564a1f8b1934"},
    "agenta-litellm-02": {"e76acd1221dac6df"},
    "agenta-sdk-01": {
        "a2a7a3421c23d812",  # `embed`, a function that the application calls an embedding
        "0eac30d9ec7a2d45",  # `ask`, a function that the application calls a chat; the client's call is below it
        "9fe6fcc7375d90c3",
    },
    "agenta-sdk-02": {"3b160f0e6b22084f"},
    "agents-logfire-01": {"ed5793ad83cca35f", "757d776b5cb381cc", "40166bd686eef204"},
    "claude-code-01": {"d2047921903ba887", "977283911ea47ae4"},
    "crewai-01": {"7a4d44a44453ab8a", "05c7c72bded288b4"},
    "genai-openai-v2-01": {
        "451a4020f031dbe3",
        "151fc23564854040",  # streamed
        "95174c1fa1133903",
        "3c3928639d54ad53",
        "124112819e3fcb53",  # 429
        "38f16955f44a609c",  # a stream that breaks off
        "068bcb3429bf4c64",  # embeddings
    },
    "genai-openai-v2-legacy-01": {
        "5b557ba89036ffeb",
        "9aea99eafedd6b15",
        "64865043be209989",
        "53b794cc2d351fe8",  # 500
        "a9751c8fdfc04776",  # embeddings
    },
    "genai-openai-v2-older-01": {
        "c3c546f0f596d799",
        "e28a16be81ca2f71",
        "9ef96a3af2676b6e",
        "09fcac0c73ca6585",  # 500
    },
    "laminar-sdk-01": {
        "1fa385d49dd0a427",
        "5a976917f2c82dbc",
        "78259e773d439638",  # 400
        "3eab59411076fa4c",  # the Responses API
        "fe98210eb7886afc",  # embeddings, which Laminar calls `LLM` too
    },
    "langfuse-sdk-01": {"6ba3c9ff9fa44c3e", "047a71785cb12647"},
    "langfuse-sdk-02": {
        "16fddae2cfc6abfe",
        "60d3b2bad3fd92bc",
        "1c535881d5ae42eb",  # 400
        "5e89b3156dae6c46",  # the Responses API
        "e226b40c2efb5d56",
        "c96079053d889a0a",  # embeddings
        "77f28ff4e7aa53b1",  # an observation that the application makes itself
    },
    "langgraph-rag-01": {
        "7e2f92f02c3ff387",
        "1d2cf434e5b0cf51",
        "a1deaafdc584ee0b",
        "009984307a5ca0f2",  # streamed
        "c9c93ab2492d0b57",  # 429
    },
    "litellm-otel-01": {
        "c51596fd1849e328",
        "78227f91a2871f07",
        "a9876b0a56cf6f29",  # streamed
        "1302c7d68279c5c8",  # 429
    },
    "langsmith-otel-01": {"381dbe2b613b048f", "1e7d03ffdf4fb437"},
    "openinference-anthropic-01": {
        # each call twice: the instrumentation's span, and the one that Anthropic's client makes itself
        *("fd86017d0a8ed43f", "ca89060d2c570b1d"),
        *("21bec35a8d69db64", "45a421d01cf48c46"),  # streamed, two traces
        *("3776e540424df0d7", "ceeb501cac6d5a9c"),
        *("f15886215ec6fedd", "83a0cc586ba19724"),
        *("4364aaf8ac003794", "7a882b7e9d6c02d2"),
        *("e4e57b74c2ccabd2", "9c3086fb5c712f94"),  # 529
    },
    "openinference-openai-01": {
        "c245bfc351a60510",
        "09be72901514d518",
        "7e93740a9c8cbec5",
        "8ea7d8e83c732acc",
        "53f6c432663e8a51",  # embeddings
        "d86834c0f64543b8",  # the Responses API
        "ff7627668b52d64a",  # 429
    },
    "openlit-01": {
        "2e28d6b2383d2a77",
        "2a135dcc0c77ad6a",  # streamed
        "7f5f456132f1965c",  # embeddings
        "01e7d94a3ad4aeb5",  # 429
    },
    "openllmetry-classic-01": {
        "eeeacb59623772e1",
        "4704715276ac9c96",  # streamed
        "fd8030532d948022",
        "ad6dad234e8399ed",
        "7185a58b935a05c9",  # embeddings
        "07fba4297c962c83",  # 429
    },
    "openllmetry-openai-01": {
        "bab77f1189057b4e",
        "f27a47847043886a",
        "81ec6310776a1a2f",
        "21f1a58deea3b5ba",
        "d3bbacb8832eff84",  # embeddings
        "bc2449df89aed57d",  # the Responses API
        "f96800d251255a50",  # 500
        "adde5958a20e1ea8",
    },
    "pydantic-ai-agent-01": {"2f37e6609c7db854", "d4fc8942570ab4ea", "14819b56730c559a"},
    "pydantic-ai-agent-02": {"de3bf0a2995092b3", "311aa51aba90d0fb", "1fad9163266efe32"},
    "pydantic-ai-agent-03": {"497c06f1b497681b"},
    "pydantic-ai-agent-04": {"6eee36d8c4e09f82"},
    "pydantic-ai-v1-01": {"ee0447480d32fbb2", "59a640845e3910ee", "3ce5c45c8c0f5099"},
    "strands-01": {"723a661b4309acdc", "afb97c5066aeb618", "4be4c0b989871e92", "be621dcfe159ab32"},  # the last: 429
    "traceloop-sdk-01": {
        "0a242370791f4cc9",
        "0c92809351e9f90c",
        "2cb6770310092836",
        "829d8b7949b375d9",
        "cc9b96110f0e433b",
    },
    "vercel-ai-v5-01": {
        "104884fa7e569cb0",
        "cf5ad5cc02cae65c",  # streamed
        "76d5f219c328f46a",
        "22e652942b97661a",
        "d9bfd29eebb27d6d",  # an object
        "94d2ec92baf3c6fb",  # embeddings
        "67d163d1715944fc",  # the Responses API
        "fa08288d8dbdc257",  # 500
    },
    "vercel-ai-v7-01": {
        "0ddbd90ffbc5d295",
        "4bc43b3e3dd4620c",
        "3cf64cc8548b911f",
        "bcaddf7b1716b6a1",
        "4daafab5f12226ca",
        *("6fd470d3025eff58", "4bfc212376248bc7"),  # embeddings: the SDK's operation and the call, both `embeddings`
        "0595eb0a4b74c19a",
        "74c21a67bcdbc148",  # 500
    },
}

TOLD_BY_ANTHROPICS_CLIENT: Final = {
    "ca89060d2c570b1d",
    "45a421d01cf48c46",
    "ceeb501cac6d5a9c",
    "83a0cc586ba19724",
    "7a882b7e9d6c02d2",
    "9c3086fb5c712f94",
}
"""The model calls that another span reports too."""

FAILED_MODEL_CALLS: Final[Spans] = {
    "dspy-01": {"f9cb7c4d1deec04d"},
    "google-genai-content-01": {"cb3b4738b2f269fc"},
    "google-genai-openinference-01": {"2eccbe20c07f8c59"},
    "haystack-01": {"aeb07879c932ae66"},
    "instructor-01": {"fc3c1bf62b580968"},
    "llama-index-01": {"9f6cd1edb28accbd"},
    "mlflow-01": {"daef0769945dc347"},
    "vercel-ai-v6-01": {"b7f1361d0a04aa53"},
    "agents-openinference-01": {"f9e359b4071556f0"},
    "agenta-litellm-02": {"e76acd1221dac6df"},  # an exception event, and a status that says nothing
    "genai-openai-v2-01": {"124112819e3fcb53", "38f16955f44a609c"},  # error.type and a status
    "genai-openai-v2-legacy-01": {"53b794cc2d351fe8"},
    "genai-openai-v2-older-01": {"09fcac0c73ca6585"},
    "laminar-sdk-01": {"78259e773d439638"},
    "langfuse-sdk-02": {"1c535881d5ae42eb"},
    "langgraph-rag-01": {"c9c93ab2492d0b57"},
    "litellm-otel-01": {"1302c7d68279c5c8"},
    "openinference-anthropic-01": {"e4e57b74c2ccabd2", "9c3086fb5c712f94"},
    "openinference-openai-01": {"ff7627668b52d64a"},
    "openlit-01": {"01e7d94a3ad4aeb5"},
    "openllmetry-classic-01": {"07fba4297c962c83"},  # a status alone
    "openllmetry-openai-01": {"f96800d251255a50"},
    "strands-01": {"be621dcfe159ab32"},
    "vercel-ai-v5-01": {"fa08288d8dbdc257"},
    "vercel-ai-v7-01": {"74c21a67bcdbc148"},
}

_LARGE: Final = (
    "adk-2-01",
    "agent-framework-01",
    "agno-openinference-01",
    "google-genai-otel-01",
    "parallel-genai-01",
    "semantic-kernel-01",
    "smolagents-01",
    "strands-latest-01",
)
"""Samples whose calls all have more than 400 tokens."""

_LARGE_OF_SOME: Final[Spans] = {
    "google-genai-content-01": {"71c54d741c31f702"},
    "google-genai-openinference-01": {"fc4f528077172a30"},
    "haystack-01": {"2f00418c7b171c18"},
    "instructor-01": {"6f53557e66a36277", "330216c577875498"},
    "llama-index-01": {"b705cac31344e1fa", "e5f53af5cacbec95", "fb3f50d543ea1163"},
    "mlflow-01": {"6ae24823a7b40bcf", "1a7b5536fc805b03"},
}
"""Calls of other samples that have more than 400 tokens."""

_LARGE_OF_AI_SDK_6: Final = {"af5495af0814bcd1", "64a12b4917fa8be3", "503d09b59c6a3b09"}

CALLS_OVER_TOKENS: Final[dict[int, Spans]] = {
    50: {
        **{name: MODEL_CALLS[name] for name in _LARGE},
        **_LARGE_OF_SOME,
        "vercel-ai-v6-01": _LARGE_OF_AI_SDK_6 | {"055fd13ee5b805a5"},  # 154
        "agents-openinference-01": MODEL_CALLS["agents-openinference-01"] - {"f9e359b4071556f0"},
        # not the chat of `agenta-sdk` that its application says 53 of: stored by hand under a name the reference sets aside
        "agenta-sdk-01": {"9fe6fcc7375d90c3"},  # 53
        "agents-logfire-01": {"ed5793ad83cca35f", "757d776b5cb381cc", "40166bd686eef204"},
        "adk-01": MODEL_CALLS["adk-01"],
        "claude-code-01": MODEL_CALLS["claude-code-01"],
        "strands-01": {"723a661b4309acdc", "afb97c5066aeb618", "4be4c0b989871e92"},
        "crewai-01": MODEL_CALLS["crewai-01"],
        "openlit-01": {"2e28d6b2383d2a77", "2a135dcc0c77ad6a"},
        "genai-openai-v2-01": {"3c3928639d54ad53"},  # 105
        "laminar-sdk-01": {"1fa385d49dd0a427", "5a976917f2c82dbc"},  # 1096 twice
        "langsmith-otel-01": {"381dbe2b613b048f", "1e7d03ffdf4fb437"},  # 1099, 1100
        "langfuse-sdk-01": {"6ba3c9ff9fa44c3e", "047a71785cb12647"},  # 1096, 150
        "langfuse-sdk-02": {"16fddae2cfc6abfe", "60d3b2bad3fd92bc", "77f28ff4e7aa53b1"},  # 1096 twice, 150
        "langgraph-rag-01": {"7e2f92f02c3ff387", "a1deaafdc584ee0b"},  # 66, 138
        "litellm-otel-01": {"c51596fd1849e328", "78227f91a2871f07"},  # 1135, 3446; another one has 14
        "openinference-anthropic-01": {
            *("fd86017d0a8ed43f", "ca89060d2c570b1d"),  # 188
            *("3776e540424df0d7", "ceeb501cac6d5a9c"),  # 68
            *("f15886215ec6fedd", "83a0cc586ba19724"),  # 117
            *("4364aaf8ac003794", "7a882b7e9d6c02d2"),  # 60
        },
        "openinference-openai-01": {"c245bfc351a60510", "8ea7d8e83c732acc"},  # 58, 179; another one has exactly 50
        "openllmetry-classic-01": {"ad6dad234e8399ed"},  # 99
        "openllmetry-openai-01": {"21f1a58deea3b5ba"},  # 113
        "pydantic-ai-agent-01": {"d4fc8942570ab4ea", "14819b56730c559a"},  # 94, 122
        "pydantic-ai-agent-02": {"1fad9163266efe32"},  # 121
        "pydantic-ai-agent-03": {"497c06f1b497681b"},  # 182
        "pydantic-ai-v1-01": {"59a640845e3910ee", "3ce5c45c8c0f5099"},  # 103, 134
        "traceloop-sdk-01": {"0c92809351e9f90c", "829d8b7949b375d9"},  # 53, 101
        "vercel-ai-v5-01": {"cf5ad5cc02cae65c", "22e652942b97661a"},  # 52, 107
        "vercel-ai-v7-01": {"bcaddf7b1716b6a1"},  # 109
    },
    179: {
        **{name: MODEL_CALLS[name] for name in _LARGE},
        **_LARGE_OF_SOME,
        "vercel-ai-v6-01": _LARGE_OF_AI_SDK_6,
        "agents-openinference-01": MODEL_CALLS["agents-openinference-01"] - {"f9e359b4071556f0"},
        "laminar-sdk-01": {"1fa385d49dd0a427", "5a976917f2c82dbc"},
        "langsmith-otel-01": {"381dbe2b613b048f", "1e7d03ffdf4fb437"},
        "agents-logfire-01": {"ed5793ad83cca35f", "757d776b5cb381cc", "40166bd686eef204"},
        "adk-01": MODEL_CALLS["adk-01"],
        "claude-code-01": MODEL_CALLS["claude-code-01"],
        "strands-01": {"723a661b4309acdc", "afb97c5066aeb618", "4be4c0b989871e92"},
        "crewai-01": MODEL_CALLS["crewai-01"],
        "openlit-01": {"2e28d6b2383d2a77", "2a135dcc0c77ad6a"},
        "langfuse-sdk-01": {"6ba3c9ff9fa44c3e"},
        "langfuse-sdk-02": {"16fddae2cfc6abfe", "60d3b2bad3fd92bc"},
        "litellm-otel-01": {"c51596fd1849e328", "78227f91a2871f07"},
        "openinference-anthropic-01": {"fd86017d0a8ed43f", "ca89060d2c570b1d"},
        "pydantic-ai-agent-03": {"497c06f1b497681b"},
    },
}

TOOLS_RUN: Final[dict[str, Spans]] = {
    "get_weather": {
        "adk-2-01": {"a3dd054399d9b752"},
        "agent-framework-01": {"31535a0fdce45029"},
        "fastmcp-01": {"011a3b4fdddaf59f", "9a3f189c5f707965"},  # the client and the server
        "google-genai-content-01": {"c41268bffeaab418"},
        "llama-index-01": {"a57289d79d0c7c40"},
        "mcp-openllmetry-01": {"73b9a784f284f7c5"},
        "mlflow-01": {"209c60dc95b52ca3"},
        "smolagents-01": {"e3c13a04f273a1be"},
        "strands-latest-01": {"8698829170ea26d8"},
        "vercel-ai-v6-01": {"42ec71cb82cc1990"},
        "agents-openinference-01": {"1f0f42b016ea785b", "3fc3fded2729a710"},
        "agno-openinference-01": {"1f2873272da5cb03"},
        "google-genai-otel-01": {"95c0ad42dcdf00d6"},
        "laminar-sdk-01": {"62f44e50fe94dd3c"},
        "langsmith-otel-01": {"fd51dc5882fc78b0"},
        "agents-logfire-01": {"5ba2bbf5a7c9837c"},
        "adk-01": {"edea85ce92b3c2da"},
        "strands-01": {"ba54e872a5b71b23"},
        "autogen-01": {"03d301bdd1c09699"},
        "crewai-01": {"170f0e1c01ca360d"},
        "langfuse-sdk-01": {"1f4df6df46e22098"},
        "langfuse-sdk-02": {"9ef6a099f82c67c9"},
        "openinference-openai-01": {"06504a0a03ab9dbe"},
    },
    "get_tram_times": {"openinference-openai-01": {"c45f92517cec9f58"}},
    "search_notes": {"langgraph-rag-01": {"487c1ad0b567c25f"}},
    "next_ferry": {"openllmetry-classic-01": {"e27cea2965f6b776"}},
    "look_up_order": {"traceloop-sdk-01": {"c24180473c801fb7"}},
    "roll_die": {"pydantic-ai-agent-01": {"f1e20af66263ed71"}},
    "distance": {"pydantic-ai-agent-02": {"25687aa0f1b560a2"}, "pydantic-ai-agent-03": {"d1e93acd53b9f5a3"}},
    "stock": {"pydantic-ai-v1-01": {"7ca7295a184655af"}},
    "trainTimes": {"vercel-ai-v5-01": {"6cedf1b2046c0b57"}},
    "ferryTimes": {"vercel-ai-v7-01": {"19852ee3446a1612"}},
    "weigh": {"agenta-sdk-01": {"b358560dede38414", "30812a977fc522bb", "54a97cdec958be7a"}},
    "find_plant": {},  # a model asks for it; nothing tells that it ran
}

TOOLS_ASKED_FOR: Final[dict[str, Spans]] = {
    "get_weather": {
        "agent-framework-01": {"fc6f14eea79a741c"},
        "llama-index-01": {"b705cac31344e1fa"},
        "mlflow-01": {"6ae24823a7b40bcf"},
        "smolagents-01": {"43a87c57b40d94aa"},
        "strands-latest-01": {"c23e3d29cf2e076b"},
        "vercel-ai-v6-01": {"af5495af0814bcd1"},
        "agents-openinference-01": {"875f19a1481fca8f", "a6b2dba2975fa9bf"},
        "agno-openinference-01": {"08ab2f48145e7fe0"},
        "parallel-genai-01": MODEL_CALLS["parallel-genai-01"],
        "laminar-sdk-01": {"1fa385d49dd0a427", "3eab59411076fa4c"},
        "langsmith-otel-01": {"381dbe2b613b048f"},
        "agents-logfire-01": {"757d776b5cb381cc"},
        "adk-01": {"7ba0294668aeb011"},
        "strands-01": {"723a661b4309acdc"},
        "crewai-01": {"7a4d44a44453ab8a"},
        "openlit-01": {"2e28d6b2383d2a77"},
        "langfuse-sdk-02": {"16fddae2cfc6abfe", "5e89b3156dae6c46", "e226b40c2efb5d56"},
        "litellm-otel-01": {"c51596fd1849e328"},
        "openinference-openai-01": {"7e93740a9c8cbec5"},
    },
    "get_tram_times": {"openinference-openai-01": {"7e93740a9c8cbec5"}},  # the second call of one message
    "count_syllables": {"openinference-anthropic-01": {"3776e540424df0d7"}},
    "search_notes": {"langgraph-rag-01": {"1d2cf434e5b0cf51"}},
    "find_plant": {"genai-openai-v2-01": {"95174c1fa1133903"}},
    "convert_units": {"openllmetry-openai-01": {"81ec6310776a1a2f"}},
    "next_ferry": {"openllmetry-classic-01": {"fd8030532d948022"}},
    "look_up_order": {"traceloop-sdk-01": {"2cb6770310092836"}},
    "roll_die": {"pydantic-ai-agent-01": {"2f37e6609c7db854"}},
    "distance": {"pydantic-ai-agent-02": {"311aa51aba90d0fb", "1fad9163266efe32"}},
    "final_result": {"pydantic-ai-agent-02": {"de3bf0a2995092b3"}},  # how Pydantic AI asks for a typed answer
    "stock": {"pydantic-ai-v1-01": {"ee0447480d32fbb2"}},
    "trainTimes": {"vercel-ai-v5-01": {"76d5f219c328f46a"}},
    "ferryTimes": {"vercel-ai-v7-01": {"3cf64cc8548b911f"}},
    "weigh": {},
}

CALLS_OF_SESSION: Final[dict[str, Spans]] = {
    "session-7f31": {
        "openinference-openai-01": {
            "c245bfc351a60510",
            "09be72901514d518",
            *("7e93740a9c8cbec5", "8ea7d8e83c732acc"),  # below an agent; it alone says the session
        }
    },
    "sess-h1": {"haystack-01": MODEL_CALLS["haystack-01"]},
    "sess-li1": {"llama-index-01": MODEL_CALLS["llama-index-01"]},
    "sess-d1": {"dspy-01": MODEL_CALLS["dspy-01"]},
    "sess-st1": {"strands-latest-01": MODEL_CALLS["strands-latest-01"]},
    "sess-sm1": {"smolagents-01": MODEL_CALLS["smolagents-01"]},
    "sess-i1": {"instructor-01": MODEL_CALLS["instructor-01"]},
    "trip-61": {"vercel-ai-v6-01": MODEL_CALLS["vercel-ai-v6-01"]},
    "resp_1": {},  # the id of a response, which Agent Framework sends as that of the conversation
    "group-9": {"agents-logfire-01": MODEL_CALLS["agents-logfire-01"]},
    "sess-g1": {"adk-01": MODEL_CALLS["adk-01"], "adk-2-01": MODEL_CALLS["adk-2-01"]},
    "sess-a1": {"agents-openinference-01": MODEL_CALLS["agents-openinference-01"]},
    "sess-ag1": {"agno-openinference-01": MODEL_CALLS["agno-openinference-01"]},
    "sess-s1": {"strands-01": MODEL_CALLS["strands-01"] - {"be621dcfe159ab32"}},
    "ca876b3e-164c-4d8c-9e65-7cb98bf016a4": {"claude-code-01": MODEL_CALLS["claude-code-01"]},
    "desk-17": {"langgraph-rag-01": {"7e2f92f02c3ff387"}},
    "thread-5": {"langgraph-rag-01": {"1d2cf434e5b0cf51", "a1deaafdc584ee0b"}},
    "sess-ls1": {"langsmith-otel-01": MODEL_CALLS["langsmith-otel-01"]},
    "sess-l1": {"laminar-sdk-01": MODEL_CALLS["laminar-sdk-01"]},
    "sess-f1": {"langfuse-sdk-01": {"6ba3c9ff9fa44c3e"}, "langfuse-sdk-02": MODEL_CALLS["langfuse-sdk-02"]},
    "island-4": {"openllmetry-classic-01": MODEL_CALLS["openllmetry-classic-01"]},
    "chat-88": {"traceloop-sdk-01": MODEL_CALLS["traceloop-sdk-01"]},
    "river-3": {"agenta-litellm-01": {"c5a3564a1f8b1934"}, "agenta-litellm-02": {"e76acd1221dac6df"}},
    "session-mill-1": {"agenta-sdk-01": MODEL_CALLS["agenta-sdk-01"]},
    "game-3": {"pydantic-ai-agent-01": MODEL_CALLS["pydantic-ai-agent-01"]},  # the application's, on the root
    "01a1fdbe-592c-7126-864f-f853ec92dff3": {"pydantic-ai-agent-01": MODEL_CALLS["pydantic-ai-agent-01"]},
    "01a1fdbe-5abf-744c-8145-a15712ef7659": {  # a trace in two records
        "pydantic-ai-agent-02": {"311aa51aba90d0fb", "1fad9163266efe32"},
        "pydantic-ai-agent-03": {"497c06f1b497681b"},
    },
    "trip-21": {"vercel-ai-v5-01": MODEL_CALLS["vercel-ai-v5-01"]},
    # of its embeddings the AI SDK 7 says no session
    "trip-22": {"vercel-ai-v7-01": MODEL_CALLS["vercel-ai-v7-01"] - {"6fd470d3025eff58", "4bfc212376248bc7"}},
}
"""The model calls in the traces of a session."""
