"""What to set in a library when its spans lack something: one table, by the beginning of the scope's name.

The longest beginning with a hint for the missing value wins; the empty one is for every other scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Value: TypeAlias = Literal[
    "model_calls", "model", "tokens", "cost", "inputs", "outputs", "session", "user", "error_message"
]
"""What may be missing. ``model_calls``: no span of the instrumentation is a model call."""

_CONTENT_ON_SPANS: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only puts messages on spans."
_ANTHROPIC: Final = (
    "Anthropic's client reports no messages. Instrument it too, for example with"
    " openinference-instrumentation-anthropic."
)
_OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"


def _content(sentence: str) -> Mapping[Value, str]:
    """Return the hint for messages, inputs and outputs alike."""
    return {"inputs": sentence, "outputs": sentence}


def _who(session: str, user: str) -> Mapping[Value, str]:
    """Return the hints for the session and the user."""
    return {"session": session, "user": user}


HINTS: Final[Mapping[str, Mapping[Value, str]]] = MappingProxyType(
    {
        "": {
            "model": "Set the attribute gen_ai.request.model on the span of the call.",
            "tokens": "Set gen_ai.usage.input_tokens and gen_ai.usage.output_tokens. Streamed responses of OpenAI's API"
            ' report them only with stream_options={"include_usage": True}.',
            "cost": "Some models have no price: `clearspan prices unknown` lists them, and docs/prices.md says how to"
            " add a price.",
            "inputs": "Set gen_ai.input.messages, or let the instrumentation capture messages: many have a setting.",
            "outputs": "Set gen_ai.output.messages, or let the instrumentation capture messages: many have a setting.",
            **_who(
                "Set the attribute session.id on any span of the trace.",
                "Set the attribute user.id on any span of the trace.",
            ),
            "error_message": "Record the exception on the span that fails: span.record_exception(error).",
        },
        "Experimental.Microsoft.Extensions.AI": _content(
            "UseOpenTelemetry(configure: c => c.EnableSensitiveData = true) captures messages."
        ),
        "agent_framework": _content("ENABLE_SENSITIVE_DATA=true captures messages."),
        "agenta": _who('Call ag.tracing.store_session("…").', 'Call ag.tracing.store_user("…").'),
        "ai": {
            **_content("Leave out recordInputs: false and recordOutputs: false in experimental_telemetry."),
            **_who(
                "Pass the session: experimental_telemetry: { metadata: { sessionId: … } }.",
                "Pass the user: experimental_telemetry: { metadata: { userId: … } }.",
            ),
        },
        "autogen-core": {
            "model_calls": "AutoGen makes no spans of model calls: instrument the client of the model, for example with"
            " openinference-instrumentation-openai.",
        },
        "com.anthropic.claude_code": _content(
            "Claude Code puts no messages on its model calls; OTEL_LOG_USER_PROMPTS=1 puts the user's prompt on the"
            " span of the interaction."
        ),
        "com.anthropic.sdk": {**_content(_ANTHROPIC), "error_message": _ANTHROPIC},
        "gcp.vertex.agent": _content(
            f"Set {_OPT_IN} and OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY; leave out"
            " ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false."
        ),
        "gen_ai": _who(
            "Pass runtimeContext: { sessionId: … } with telemetry: { includeRuntimeContext: { sessionId: true } }, and"
            " register new OpenTelemetry({ runtimeContext: true }).",
            "Pass runtimeContext: { userId: … } with telemetry: { includeRuntimeContext: { userId: true } }, and"
            " register new OpenTelemetry({ runtimeContext: true }).",
        ),
        "langfuse-sdk": _who(
            'Call the model inside of `with propagate_attributes(session_id="…"):`.',
            'Call the model inside of `with propagate_attributes(user_id="…"):`.',
        ),
        "langsmith": _who(
            'Pass the session in the configuration of the run: {"metadata": {"session_id": "…"}}.',
            'Pass the user in the configuration of the run: {"metadata": {"user_id": "…"}}.',
        ),
        "litellm": _content("Leave out litellm.turn_off_message_logging = True."),
        "lmnr": _who('Call Laminar.set_trace_session_id("…").', 'Call Laminar.set_trace_user_id("…").'),
        "logfire": {
            "session": "Set session.id on any span of the trace, and keep Logfire from scrubbing it:"
            " logfire.configure(scrubbing=False), or a callback of ScrubbingOptions that returns it.",
        },
        "mlflow": {
            **_content("Leave out MLFLOW_ENABLE_OTEL_GENAI_SEMCONV: MLflow's own attributes have more."),
            **_who(
                'Call mlflow.get_current_active_span().set_attribute("session.id", "…") on any span of the trace.',
                'Call mlflow.get_current_active_span().set_attribute("user.id", "…") on any span of the trace.',
            ),
        },
        "openinference": {
            "inputs": "Leave out OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES.",
            "outputs": "Leave out OPENINFERENCE_HIDE_OUTPUTS and OPENINFERENCE_HIDE_OUTPUT_MESSAGES.",
            **_who(
                'Call the model inside of `with using_session("…"):` of openinference.instrumentation.',
                'Call the model inside of `with using_user("…"):` of openinference.instrumentation.',
            ),
        },
        "openinference.instrumentation.dspy": {
            "tokens": "OpenInference reports no tokens of DSPy; mlflow.dspy.autolog() of MLflow does.",
        },
        "openlit": _content("Leave out capture_message_content=False of openlit.init()."),
        "opentelemetry.instrumentation.genai": _content(_CONTENT_ON_SPANS),
        "opentelemetry.instrumentation.google_genai": _content(
            f"{_CONTENT_ON_SPANS} Versions before 1.0 also need {_OPT_IN}."
        ),
        "opentelemetry.instrumentation.openai.v1": {
            **_content("Leave out TRACELOOP_TRACE_CONTENT=false."),
            **_who(
                'Call Traceloop.set_association_properties({"session_id": "…"}).',
                'Call Traceloop.set_association_properties({"user_id": "…"}).',
            ),
        },
        "opentelemetry.instrumentation.openai_v2": _content(f"{_CONTENT_ON_SPANS} It also needs {_OPT_IN}."),
        "opentelemetry.util.genai": _content(_CONTENT_ON_SPANS),
        "org.springframework.boot": _content("Spring AI logs prompts and completions, and puts them on no span."),
        "pydantic-ai": _content("Leave out include_content=False of InstrumentationSettings."),
        "semantic_kernel": _content(
            "Semantic Kernel sends messages as log records, which Clearspan does not read. OpenInference or OpenLLMetry"
            " for the client of the model puts them on spans."
        ),
        "strands": _who(
            'Create the agent with trace_attributes={"session.id": "…"}.',
            'Create the agent with trace_attributes={"user.id": "…"}.',
        ),
    }
)
"""Beginning of a scope's name → missing value → what to do."""


def hint_for(scope_name: str, missing: Value) -> str | None:
    """Return what to do if spans of a scope lack a value; ``None`` if nothing is known."""
    prefixes = [prefix for prefix, hints in HINTS.items() if missing in hints and _is_of(scope_name, prefix)]
    return HINTS[max(prefixes, key=len)][missing] if prefixes else None


def _is_of(scope_name: str, prefix: str) -> bool:
    """Whether the prefix is the name or whole parts of it: ``ai`` is none of ``aiohttp``."""
    return not prefix or f"{scope_name}.".startswith(f"{prefix}.")
