"""Commands from the signatures of their functions: the name, type, default and help of an option stand there once.

A keyword parameter is an option, or with ``Operand`` a positional argument:

    @command("list the commits of a variant, latest first", is_table=True)
    def log(settings: Settings, *, application: Annotated[str, Operand("APPLICATION", "the slug of an application")],
            limit: Annotated[int, Option("N", "at most N lines (default: 50)", type=limit)] = 50) -> int: ...

A parameter without a default is required. A ``bool`` is a flag. The fields of a ``NamedTuple`` are options that belong
together; ``Titled`` shows them below a title of their own.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

_STARTS_LIKE_A_NUMBER: Final = re.compile(r"-[0-9.]")


class CommandParser(argparse.ArgumentParser):
    """A parser whose options are not abbreviated, and for which ``-15m`` and ``-1`` are values."""

    def __init__(self, **texts: Any) -> None:
        super().__init__(**texts, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._negative_number_matcher = _STARTS_LIKE_A_NUMBER
        self.summary = ""
        """What the list of commands shows of it."""

    def with_all_below(self) -> Iterator[CommandParser]:
        """Yield this parser and those of all commands below it."""
        yield self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    yield from command.with_all_below()


class Option:
    """An option: its value and meaning in the help, and settings of ``argparse``.

    ``flag`` is its name if that is not the name of the parameter. Options that are ``one_of`` the same exclude each
    other.
    """

    def __init__(self, metavar: str | None, text: str, *, flag: str = "", one_of: str = "", **settings: Any) -> None:
        self.flag: Final = flag
        self.one_of: Final = one_of
        self.settings: Final = {"help": text, **({} if metavar is None else {"metavar": metavar}), **settings}


class Operand(Option):
    """A positional argument."""


class Titled(NamedTuple):
    """The title of options that belong together."""

    title: str


Wide: TypeAlias = Annotated[bool, Option(None, "show every column, and values that are not cut to a width")]
Json: TypeAlias = Annotated[bool, Option(None, "print one JSON object per line", flag="--json")]


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what runs it, and what its help says. Without a description the summary is shown as a sentence."""

    run: Callable[..., int]
    """Takes the settings or ``None``, and the options as keywords; returns the exit code."""

    options: Mapping[str, tuple[Any, Any]]
    """The annotation and the default of each option."""

    summary: str = ""
    """What lists of actions show; the summary of a command that is no action is in ``clearspan.cli``."""

    description: str = ""
    epilog: str = ""
    needs_settings: bool = True

    def values(self, parsed: argparse.Namespace) -> dict[str, Any]:
        """Return the options that ``run`` takes."""
        return {name: _value(hint, name, parsed) for name, (hint, _) in self.options.items() if name != "wide"}


@dataclass(frozen=True, slots=True)
class Group:
    """Actions on one kind of thing, such as ``keys create`` and ``keys list``. ``alone`` runs without an action."""

    actions: Mapping[str, Command | Group]
    description: str
    epilog: str
    summary: str = ""
    alone: Command | None = None


def command(
    summary: str = "",
    *,
    description: str = "",
    epilog: str = "",
    is_table: bool = False,
    needs_settings: bool = True,
    via: Callable[[Any], Callable[..., int]] | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function, which takes the settings unless ``via`` calls it with something else.

    Without ``needs_settings`` it runs even if the settings are invalid, and takes ``None``. ``is_table`` adds
    ``--wide``; ``more`` are the annotations of further options that ``via`` takes.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        hints = get_type_hints(function, include_extras=True)
        options = {
            name: (hints[name], parameter.default)
            for name, parameter in signature(function).parameters.items()
            if parameter.kind is Parameter.KEYWORD_ONLY
        }
        added = {**({"wide": Wide} if is_table else {}), **more}
        options |= {name: (hint, options[name][1] if name in options else False) for name, hint in added.items()}
        return Command(
            function if via is None else via(function), options, summary, description, epilog, needs_settings
        )

    return decorate


def fill(parser: CommandParser, node: Command | Group, summary: str) -> None:
    """Give the parser of a command, or of a group with its actions, its texts and options."""
    parser.summary = summary
    parser.description = node.description or f"{summary[0].upper()}{summary[1:]}."
    parser.epilog = node.epilog
    if isinstance(node, Group):
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=node.alone is None)
        for name, action in node.actions.items():
            fill(actions.add_parser(name, help=action.summary), action, action.summary)
        if node.alone is not None:
            _add_all(parser, node.alone)
        return
    _add_all(parser, node)


def _add_all(parser: CommandParser, node: Command) -> None:
    parser.set_defaults(command=node)
    groups: dict[str, Any] = {}
    for name, (hint, default) in node.options.items():
        _add(parser, groups, name, hint, default)


def _add(parser: Any, groups: dict[str, Any], name: str, hint: Any, default: Any) -> None:
    """Add the option of a parameter, or the options of its fields. ``groups`` are those of the parser so far."""
    kind, notes = _parts(hint)
    if _holds_options(kind):
        for note in notes:
            if isinstance(note, Titled):
                parser = groups.get(note.title) or parser.add_argument_group(note.title)
                groups[note.title] = parser
        hints = get_type_hints(kind, include_extras=True)
        for member in kind._fields:
            _add(parser, groups, member, hints[member], kind._field_defaults.get(member, Parameter.empty))
        return
    option = next(note for note in notes if isinstance(note, Option))
    settings = {**option.settings, **({} if default is Parameter.empty else {"default": default})}
    if option.one_of:
        parser = groups.get(option.one_of) or parser.add_mutually_exclusive_group()
        groups[option.one_of] = parser
    if isinstance(option, Operand):
        parser.add_argument(name, **settings)
        return
    if kind is bool:
        settings = {"action": "store_true", "help": option.settings["help"]}
    elif default is Parameter.empty:
        settings["required"] = True
    parser.add_argument(option.flag or f"--{name.replace('_', '-')}", dest=name, **settings)


def _value(hint: Any, name: str, parsed: argparse.Namespace) -> Any:
    kind, _ = _parts(hint)
    if not _holds_options(kind):
        return getattr(parsed, name)
    return kind(**{member: getattr(parsed, member) for member in kind._fields})


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type and the notes of an annotation."""
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return kind, tuple(notes)
    return hint, ()


def _holds_options(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "_fields")
