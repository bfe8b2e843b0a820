"""What stands below a masked key in text that is like JSON is stored nowhere, and all other text stays as it came."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common import json_tokens
from common import masking as masking_module
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Partition, Record
from common.limits import SpanLimits
from common.masking import DROPPED, REDACTED, Mask, MaskAction, MaskPlace, MaskRule, ProjectRules, pack
from common.settings import Encoding, TopicSettings
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.masking.dead_letters import Masking
from ingest.masking.planned import PlannedMask
from tests.support.attributes import attributes_of
from tests.support.cases import case
from tests.support.otlp import request
from tests.support.otlp_json import request_json

RULES = Rules({"t": TopicSettings(encoding=Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)
NOW_NS = 1_800_000_000 * 10**9
SECRET = "S3cret"
BOM = "\ufeff"
PASSWORD = MaskRule(MaskAction.REDACT, "*password")
KEYS = ("input.value", "gen_ai.input.messages", "ag.data.inputs", "llm.output_messages.0.message.content", "note")

LISTED = {
    "NaN": '{"password":"S3cret","score":NaN}',
    "Infinity": '{"score":[-Infinity, Infinity],"password":"S3cret"}',
    "too large": '{"score":1e999,"password":"S3cret"}',
    "half a pair": '{"a":"\\ud83d","password":"S3cret"}',
    "half a pair in the secret": '{"password":"S3cret\\ud83d"}',
    "byte order mark": BOM + '{"password":"S3cret"}',
    "lines": '{"a":1}\n{"password":"S3cret"}\n{"b":2}\n',
    "cut off": '{"a":[1,2],"password":"S3cret',
    "cut off later": '{"a":[1,2],"password":"S3cret","b":{"c":"te',
    "cut off in a number": '{"password":{"x":["S3cret",1',
    "cut off at its begin": 'word":"a","password":"S3cret"}',
    "cut off with a sign": '{"user":"a","password":"S3, cret S3cret"... [truncated]',
    "inside of JSON": json.dumps({"arguments": '{"password":"S3cret","n":NaN}'}),
    "inside of JSON that is cut off": json.dumps({"arguments": '{"password":"S3cret","n":1}'})[:-8],
    "twice inside": json.dumps({"a": json.dumps({"b": '{"password":"S3cret'})}),
    "twice inside and cut off": json.dumps({"a": json.dumps({"b": json.dumps({"password": SECRET})})})[:-3],
    "a text": '"' + '{\\"password\\":\\"S3cret\\",\\"n\\":NaN}' + '"',
    "a text that is cut off": '"' + '{\\"password\\":\\"S3cret',
    "in other text": 'the answer was {"password": "S3cret"} as expected',
    "in an event stream": 'data: {"a":1}\n\ndata: {"password":"S3cret"}\n\n',
    "after an apostrophe": 'it\'s {"password": "S3cret"} isn\'t it',
    "after a quote": '5" wide {"password": "S3cret"}',
    "after a broken object": '{5" x} {"password": "S3cret"}',
    "escaped in other text": 'body="{\\"password\\":\\"S3cret\\"}" and more',
    "number": '{"password":1234567,"n":NaN}'.replace("1234567", "5353535"),
    "object": '{"password":{"x":["S3cret",{"y":"S3cret"}]},"n":NaN}',
    "with a quote": '{"password":"S3"cret S3cret","n":1}',
    "repeated": '{"password":"S3cret","password":"x"}',
    "repeated above": '{"a":{"password":"S3cret"},"a":1}',
    "python": "{'user': 'ada', 'password': 'S3cret', 'ok': True, 'none': None}",
    "python with quotes": "{'password': \"it's S3cret\", 'b': 'say \"hi\"'}",
    "python with a call": "{'password': SecretStr('S3cret'), 'at': datetime.date(2026, 1, 2)}",
    "python with bytes": "{'password': b'S3cret\\x00', 'n': (1, 2)}",
    "python with a class": "User(name='ada', password='S3cret')",
    "python with pairs": "OrderedDict([('user', 'ada'), ('password', 'S3cret'), ('n', 1)])",
    "omitted in the middle": '{"a":"text ... [300 characters] ... y_password":"S3cret","b":1}',
    "omitted quote": '{"a":"text ...\n{"password":"S3cret"}',
    "javascript": "{ user: 'ada', password: 'S3cret' }",
    "ruby": '{"password"=>"S3cret", "n"=>1}',
    "typed": '@ag.type=json:{"password":"S3cret"}',
    "a backslash at the end of escaped text, twice": "\n".join(
        2 * [json.dumps('{"a": NaN, "password": "S3cret, \\\\"}, ["a \\\\\\" b"]')]
    ),
    "escaped key": '{"pass\\u0077ord":"S3cret","n":NaN}',
    "space": '{"password" :\n "S3cret", "n": NaN}',
    "cut off at its begin, with a space": 'tail, "password" : "S3cret", "score" : 1',
    "cut off at its begin, with spaces": "tail, 'password' \t\n: 'S3cret', 'score' : 1",
    "cut off at its begin, escaped": 'tail, \\"password\\" : \\"S3cret\\", \\"score\\" : 1',
    "cut off at its begin, ruby": 'x "password"=>"S3cret"',
    "words": "User(name=bob, password=S3cret)",
    "words after lines": "User(\n  password = S3cret\n)",
    "words with colons": "User(name: bob, password: S3cret)",
    "words in a java record": "User[name=bob, password=S3cret]",
    "words in a list of elixir": '[name: "bob", password: "S3cret"]',
    "pairs on lines": "OrderedDict([\n ('password', 'S3cret')])",
}
UNMASKED = (
    '{"score":NaN,"a":[1e999, -Infinity]}', BOM + '{"a": 1}', '{"a":1}\n{"b":"passwords"}', "{'a': 'my password is x'}",
    '{"a":"\\ud83d"', "say \"password\", don't {whisper}", '{"a": 1, "a": 2}', "User(name='ada')", "{[(}])", '"', "\\",
    "see [the password](https://example.org/reset), (https://example.org/?password=a)", "lock [12:30] (password)",
    'the word "password" stands here {"a": 1', '{"passwords": 1, "n": NaN}', "{'a\\': '\"}'",
)  # fmt: skip


def masked(value: bytes, *rules: MaskRule, content_type: str = "application/x-protobuf") -> DecodedChunk:
    record = Record("t", 0, 0, 5, None, value, (("content-type", content_type.encode()),))
    masking = Masking(pack({DEFAULT_PROJECT_ID: ProjectRules(rules or (PASSWORD,), b"k")}), {"t": DEFAULT_PROJECT_ID})
    return decode_chunk(Chunk([record], {Partition("t", 0): "c/t/0"}, NOW_NS, masking=masking), RULES)


def everything_in(decoded: DecodedChunk) -> str:
    """All that is stored and dead-lettered."""
    letters = [
        letter.value.decode("utf-8", "replace") for outcome in decoded.outcomes for letter in outcome.dead_letters
    ]
    return json.dumps([decoded.rows.to_pylist(), letters], default=repr)


def add_text(message: Any, text: str) -> None:
    """Add a text wherever a span has texts, besides its attributes."""
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.name, span.status.message = text, text
    span.events.add(name=text, time_unix_nano=span.start_time_unix_nano).attributes.add(
        key="exception.message"
    ).value.string_value = text
    message.resource_spans[0].resource.attributes.add(key="process.command").value.string_value = text
    message.resource_spans[0].scope_spans[0].scope.name = text


def secret_of(name: str) -> str:
    return "5353535" if name == "number" else SECRET


@pytest.mark.parametrize("key", KEYS)
def test_value_below_a_masked_key_is_not_stored(key: str) -> None:
    for name, text in LISTED.items():
        with case(name):
            message = ExportTraceServiceRequest.FromString(request(["a"], attributes={key: text}))
            add_text(message, text)

            decoded = masked(message.SerializeToString())

            assert decoded.rows.num_rows == 1
            assert secret_of(name) not in everything_in(decoded)
            # `ag` has the last value, which is not masked
            assert REDACTED in everything_in(decoded) or name == "repeated above"


@pytest.mark.parametrize("encoding", ["protobuf", "json", "span"])
def test_value_below_a_masked_key_is_not_dead_lettered(encoding: str) -> None:
    for name, text in LISTED.items():
        with case(name):
            value, content_type = rejected_record(text, encoding)

            decoded = masked(value, content_type=content_type)

            assert len(decoded.outcomes[0].dead_letters) == 1
            assert decoded.outcomes[0].dead_letters[0].value
            assert secret_of(name) not in everything_in(decoded)


def rejected_record(text: str, encoding: str) -> tuple[bytes, str]:
    """Return a record of a rejected span that has the text, and its content type."""
    value = request(["a"], attributes={"input.value": text}, absurd=["a"])
    message = ExportTraceServiceRequest.FromString(value)
    add_text(message, text)
    if encoding == "protobuf":
        return message.SerializeToString(), "application/x-protobuf"
    if encoding == "json":
        return request_json(message), "application/json"
    span = {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": text, "start_time": "1970-01-01T00:00:00Z",
            "attributes": {"input": {"value": text}}, "status_message": text}  # fmt: skip
    return json.dumps(span).encode(), "application/vnd.clearspan.span+json"


@pytest.mark.parametrize("text", UNMASKED)
def test_text_without_a_masked_key_stays_as_it_came(text: str) -> None:
    mask = Mask(ProjectRules((PASSWORD, MaskRule(MaskAction.REDACT, "a.b", "x")), b"k"))

    assert mask.member(MaskPlace.ATTRIBUTES, "note", text) is text
    rows = masked(request(["a"], attributes={"note": text})).rows
    assert json.loads(attributes_of(rows)[0])["note"] == text


@pytest.mark.parametrize(
    ("action", "text", "expected"),
    [
        (MaskAction.REDACT, '{"a": 1e999, "password": "S3cret"}', '{"a": 1e999, "password": "[masked]"}'),
        (MaskAction.REDACT, "{'password': 'S3cret', 'a': 1}", "{'password': '[masked]', 'a': 1}"),
        (MaskAction.REDACT, '{"password":{"x": 1},"a":1e999}', '{"password":"[masked]","a":1e999}'),
        (MaskAction.REDACT, 'b="{\\"password\\":5353535}" x', 'b="{\\"password\\":\\"[masked]\\"}" x'),
        (MaskAction.DROP, '{"a": 1e999, "password": "S3cret"}', '{"a": 1e999}'),
        (MaskAction.DROP, '{"password": "S3cret", "a": 1e999}', '{ "a": 1e999}'),
        (MaskAction.DROP, '{"password": "S3cret"', "{"),
        (MaskAction.DROP, '{"a":1e999,"password":1,"x.password":2}', '{"a":1e999}'),
    ],
)
def test_rest_of_the_text_stays_as_it_came(action: MaskAction, text: str, expected: str) -> None:
    mask = Mask(ProjectRules((MaskRule(action, "*password"),), b"k"))

    assert mask.member(MaskPlace.ATTRIBUTES, "note", text) == expected


def test_equal_values_have_equal_hashes_in_any_kind_of_text() -> None:
    mask = Mask(ProjectRules((MaskRule(MaskAction.HASH, "*password"),), b"k"))
    texts = (
        '{"password":"S3cret"}',
        '{"password":"S3cret","n":1e999}',
        "{'password': 'S3cret'}",
        '{"password":"S3cret',
    )
    found = {str(mask.member(MaskPlace.ATTRIBUTES, "note", text)).split("hash:")[1][:32] for text in texts}

    assert len(found) == 1


def test_expression_finds_what_is_escaped_in_text_that_cannot_be_parsed() -> None:
    rule = MaskRule(MaskAction.REDACT, value=r"^sk-[a-z]+")
    text = '{"a":"\\u0073k-abc","n":1e999}'

    [attributes] = attributes_of(masked(request(["a"], attributes={"note": text}), rule).rows)

    assert json.loads(attributes)["note"] == '{"a":"[masked]","n":1e999}'


def test_path_of_a_rule_counts_in_text_that_cannot_be_parsed() -> None:
    rules = ProjectRules(
        (MaskRule(MaskAction.DROP, "note.users.1.id"), MaskRule(MaskAction.REDACT, "note.x", "e+")), b"k"
    )
    text = '{"users":[{"id":1},{"id":2},{"id":3}],"id":4,"x":{"y":"see"},"n":1e999}'

    masked_text = Mask(rules).member(MaskPlace.ATTRIBUTES, "note", text)

    assert masked_text == '{"users":[{"id":1},{},{"id":3}],"id":4,"x":{"y":"s[masked]"},"n":1e999}'


@pytest.mark.parametrize("key", ["user.password", "*", "user.*", "*.password"])
def test_key_counts_in_texts_that_have_no_key_themselves(key: str) -> None:
    rules = ProjectRules((MaskRule(MaskAction.REDACT, key),), b"k")

    for mask in (Mask(rules), PlannedMask(rules)):
        shown = mask.text(MaskPlace.STATUS_MESSAGE, '{"user":{"password":"S3cret"},"n":1e999}')
        assert shown is not None
        assert SECRET not in shown
        assert "n" in shown


@pytest.mark.parametrize("levels", [70, 2_000])
def test_what_is_too_deep_in_text_that_cannot_be_parsed_is_redacted(levels: int) -> None:
    text = '{"a":' * levels + '{"password":"S3cret",1e999}' + "}" * levels + ', "b": 1'

    shown = Mask(ProjectRules((PASSWORD,), b"k")).member(MaskPlace.ATTRIBUTES, "note", text)

    assert SECRET not in shown
    assert shown.endswith(', "b": 1')


def test_texts_that_take_too_long_are_redacted_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking_module, "EDIT_S_MAX", -1.0)
    mask = PlannedMask(ProjectRules((PASSWORD,), b"k"))
    sent = {"a": '{"password":"S3cret",1e999}', "b": '{"password":"S3cret"}', "c": '{"n":1e999}', "d": "a password {"}

    shown = mask.attributes(MaskPlace.ATTRIBUTES, sent)

    assert shown == {"a": REDACTED, "b": '{"password":"[masked]"}', "c": sent["c"], "d": REDACTED}


# Made texts.

LITERALS = (
    "NaN",
    "-Infinity",
    "1e999",
    "null",
    "true",
    "-1.5",
    '"\\ud83d"',
    '"it\'s"',
    '"a \\" b"',
    '"a, b: {c}"',
    '""',
)
PYTHON = (
    "nan",
    "None",
    "True",
    "(1,)",
    "'a'",
    '"it\'s"',
    "'say \"x\"'",
    "b'a'",
    "'{'",
    "<A at 0x1>",
    "'\\''",
    "{1, 2}",
)
NAMES = ("a", "b c", "x", "don't", "pass", "0", "")


def written(pick: random.Random, levels: int, *, has_secret: bool, is_python: bool) -> str:
    """Return a text of a value; somewhere in it, a member ``password`` holds the secret."""
    if levels == 0 and not has_secret:
        return pick.choice(PYTHON if is_python else LITERALS)
    if has_secret and (levels == 0 or pick.random() < 0.4):
        return "{" + ", ".join([*members(pick, is_python=is_python), secret_member(pick, is_python=is_python)]) + "}"
    parts = [written(pick, levels - 1, has_secret=False, is_python=is_python) for _ in range(pick.randint(0, 2))]
    parts.insert(pick.randint(0, len(parts)), written(pick, levels - 1, has_secret=has_secret, is_python=is_python))
    if pick.random() < 0.3:
        return quoted(", ".join(parts), is_python=is_python)
    if pick.random() < 0.5:
        return "[" + ",".join(parts) + "]"
    return "{" + ",".join(f"{quoted(pick.choice(NAMES), is_python=is_python)}: {part}" for part in parts) + "}"


def members(pick: random.Random, *, is_python: bool) -> list[str]:
    literals = PYTHON if is_python else LITERALS
    return [
        f"{quoted(pick.choice(NAMES), is_python=is_python)}: {pick.choice(literals)}" for _ in range(pick.randint(0, 2))
    ]


def secret_member(pick: random.Random, *, is_python: bool) -> str:
    value: Any = pick.choice((SECRET, f"a {SECRET}", [SECRET], {"x": [1, SECRET]}, f"\"{SECRET}', {{", f"{SECRET}, \\"))
    key = quoted(pick.choice(("password", "db_password", "Password")), is_python=is_python)
    colon = pick.choice((": ", ":", " : "))
    return f"{key}{colon}{repr(value) if is_python else json.dumps(value)}"


def quoted(text: str, *, is_python: bool) -> str:
    return repr(text) if is_python else json.dumps(text)


def disturbed(pick: random.Random, text: str) -> str:
    kind = pick.randint(0, 6)
    if kind == 0:
        return BOM + text
    if kind == 1:
        return f'{{"a": 1}}\n{text}\n{text}'
    if kind == 2:  # after the key, wherever
        return text[: pick.randint(text.lower().rfind("password"), len(text))]
    if kind == 6:  # before the key, wherever
        [*_, key] = re.finditer(r"""\\*["'](?:db_)?password""", text, re.IGNORECASE)
        return text[pick.randint(0, key.start()) :]
    if kind == 3:
        return f"Answer: {text} (it's done)"
    if kind == 4:
        return json.dumps({"arguments": text})[: -pick.randint(0, 3) or None]
    return text


@given(seed=st.integers(0, 2**32))
def test_secret_below_a_masked_key_is_stored_nowhere(seed: int) -> None:
    pick = random.Random(seed)
    has_python = pick.random() < 0.4
    text = disturbed(pick, written(pick, pick.randint(0, 3), has_secret=True, is_python=has_python))
    attributes = {pick.choice(KEYS): text}

    stored = masked(request(["a"], attributes=attributes))
    rejected = masked(request(["a"], attributes=attributes, absurd=["a"]))

    assert stored.rows.num_rows == 1
    assert SECRET not in everything_in(stored), text
    assert SECRET not in everything_in(rejected), text


@given(seed=st.integers(0, 2**32))
def test_made_text_without_a_masked_key_stays_as_it_came(seed: int) -> None:
    pick = random.Random(seed)
    text = disturbed(pick, written(pick, pick.randint(0, 3), has_secret=True, is_python=pick.random() < 0.4))
    everywhere = Mask(
        ProjectRules((MaskRule(MaskAction.REDACT, "*passphrase*"), MaskRule(MaskAction.DROP, "*.none")), b"k")
    )
    unread = Mask(ProjectRules((MaskRule(MaskAction.REDACT, "*no*such*key"),), b"k"))

    for mask in (everywhere, unread):
        assert mask.member(MaskPlace.ATTRIBUTES, "note", text) == text
        assert mask.count == 0


@given(text=st.text(st.sampled_from("""{}[]():,=\\"' \nap1é"""), max_size=40))
def test_any_text_is_read_and_what_no_rule_takes_stays(text: str) -> None:
    rules = ProjectRules((MaskRule(MaskAction.DROP, "*ppp*"), MaskRule(MaskAction.HASH, "*", "ppp")), b"k")
    shown = Mask(rules).member(MaskPlace.ATTRIBUTES, "note", text)

    assert shown is DROPPED or shown == text or "ppp" in text.replace("\\", "")
    assert all(type(found) is str for found in json_tokens.texts_in(text))


@pytest.mark.parametrize(
    "piece", ['"', "'", '\\"', '\\\\"', "{", "[", "}", '{"a":', '{"password":', "\\", '"a" ', '","', "a'b\"c"]
)
def test_time_is_linear_in_the_length_of_a_text(piece: str) -> None:
    rules = ProjectRules((MaskRule(MaskAction.REDACT, "*password"),), b"k")

    def seconds(count: int) -> float:
        text = "{" + piece * count + " password"
        began_s = time.thread_time()
        Mask(rules).member(MaskPlace.ATTRIBUTES, "note", text)
        return time.thread_time() - began_s

    # Four times the length: 16 times as long if it were quadratic.
    assert any(seconds(8_000) < 9 * seconds(2_000) for _ in range(5))
