r"""The values of a statement as literals of ClickHouse SQL.

They are part of the SQL because a server takes 128 KiB of a parameter or of a form's field
(``http_max_field_value_size``), less than the ids of a page of large traces, and the engine analyses each parameter as
the cast of a text, 0.15 ms.

No literal can end early: of a text, every byte that is not a letter, a digit or one of ``_-`` and space stands as
``\xHH``. The SQL is read once, so a value that looks like a placeholder stays a value.
"""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

from common.clickhouse.store import Statement
from common.errors import InvalidStatement

_PLACEHOLDER: Final = re.compile(r"\{(\w+):([^{}]+)\}")
_ESCAPED: Final = re.compile(rb"[^0-9A-Za-z_ -]")


def with_literals(statement: Statement) -> str:
    """Return the SQL with a literal for each ``{name:Type}``.

    Raises ``InvalidStatement`` for a name without a value, and for a value that SQL has no literal for.
    """

    def literal(placeholder: re.Match[str]) -> str:
        name, kind = placeholder.groups()
        if name not in statement.parameters:
            raise InvalidStatement(f"The statement has no value for {placeholder[0]}.")
        return _literal(statement.parameters[name], kind)

    return _PLACEHOLDER.sub(literal, statement.sql)


def _literal(value: Any, kind: str) -> str:
    match value:
        case bytes():  # often the ids of a page: twice their size in digits, instead of four times
            return f"unhex('{value.hex()}')"
        case str() if kind == "String":
            return _text(value)
        case str():
            return f"CAST({_text(value)}, '{kind}')"
        case int():
            return f"CAST({int(value)}, '{kind}')"
        case float() | UUID():
            return f"CAST('{value}', '{kind}')"
        case list() | tuple():
            return f"CAST({_array(value)}, '{kind}')"
        case _:
            raise InvalidStatement(f"SQL has no literal for a value of type {type(value).__name__}.")


def _array(values: list[Any] | tuple[Any, ...]) -> str:
    """Return an array of numbers or of texts as one literal: indexes are not used for the result of a function."""
    return f"[{','.join(map(_element, values))}]"


def _element(value: Any) -> str:
    match value:
        case str() | UUID():
            return _text(str(value))
        case int():
            return str(int(value))
        case float():
            return repr(value)
        case _:
            raise InvalidStatement(f"SQL has no literal for an array of {type(value).__name__}.")


def _text(value: str) -> str:
    escaped = _ESCAPED.sub(lambda byte: b"\\x%02x" % ord(byte[0]), value.encode())
    return f"'{escaped.decode()}'"
