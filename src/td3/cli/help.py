"""The help of every command, made from its `Arguments`, at most 80 columns wide.

tyro would show a default after every text, even an empty one, and optional arguments as required.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from td3.cli.values import ONE_WORD, SEVERAL_WORDS
from td3.config.fields import Setting

WIDTH = 80
EXAMPLE = ("td3 ", "source <(")
COLUMN = 32  # of the texts; a longer flag has a line of its own
POSITIONAL, SUPPRESSED = (
    typing.get_args(marked)[1] for marked in (tyro.conf.Positional[int], tyro.conf.Suppress[int])
)


@dataclass(frozen=True)
class Option:
    """A flag, or an argument without a flag."""

    name: str
    """--episodes, or RUN."""
    value: str
    """What follows a flag: INT, {best,last}; empty for a switch."""
    declared: Setting
    default: Any
    """MISSING if the argument is required."""
    table: type
    """The class that declares it."""

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("--")

    @property
    def usage(self) -> str:
        name = f"{self.name} …" if self.value.endswith("…") else self.name
        return name if self.default is dataclasses.MISSING else f"[{name}]"

    @property
    def default_text(self) -> str:
        """The default as on the command line; empty if there is nothing to show."""
        if isinstance(self.default, bool):
            return "on" if self.default else ""
        if isinstance(self.default, tuple):
            return " ".join(map(str, self.default))
        empty = self.default in (None, {}, dataclasses.MISSING)
        return "" if empty else str(self.default)

    @property
    def line(self) -> str:
        """The help text of one line, with the default in brackets."""
        text, default = self.declared.help.rstrip("."), self.default_text
        return f"{text} [{default}]" if default else text

    @property
    def text(self) -> str:
        """The complete help text, with the default first in brackets."""
        facts = "; ".join(filter(None, (self.default_text, *self.declared.facts)))
        texts = (self.declared.help, self.declared.more, facts and f"[{facts}]")
        return " ".join(filter(None, texts))


def show_help(module: Any, command: str, words: list[str], default: Any) -> None:
    """Print the help of a command or of its subcommand.

    A module with `for_help` has two pages: `--help` lists the common settings, `--help-all` all.
    """
    command, kind = chosen(command, module.Arguments, words)
    if has_two := hasattr(module, "for_help"):
        default = module.for_help(default)
    print(help_page(command, kind, default, common=has_two and "--help-all" not in words))


def help_page(command: str, kind: type, given: Any = None, common: bool = False) -> str:
    """The help of a command.

    Args:
        command: Its name, e.g. `train`.
        kind: The class of its arguments.
        given: Arguments with the defaults to show; without it those of the class.
        common: List only the common settings, one line each.
    """
    if commands := subcommands(kind):
        usage = f"usage: td3 {command} {{{','.join(commands)}}} [OPTIONS]"
        rows = [line for name, own in commands.items() for line in row(name, summary(own), 16)]
        more = f"The options of one: td3 {command} {next(iter(commands))} --help"
        return "\n".join([usage, "", *description(kind), "", *rows, "", more])
    every = sorted(options(kind, given), key=lambda own: own.is_flag)
    words = [own.usage for own in every if not own.is_flag]
    head = [" ".join(["usage: td3", command, *words, "[OPTIONS]"]), "", *description(kind), ""]
    if common:
        listed = [own for own in every if own.declared.common]
        rows = [line for own in listed for line in row(own.name, own.line, COLUMN)]
        title = "Common settings, with their defaults in brackets:"
        return "\n".join(
            [*head, title, *rows, "", f"td3 {command} --help-all shows every setting."]
        )
    return "\n".join([*head, "Options, with their defaults in brackets:", *all_rows(every, kind)])


def all_rows(every: list[Option], kind: type) -> Iterator[str]:
    """The complete texts, with a heading for each table of settings."""
    flags = [f"{own.name} {own.value}" if own.is_flag else own.name for own in every]
    column = min(COLUMN, max(map(len, flags)) + 4)
    table = kind
    for flag, own in zip(flags, every, strict=True):
        if own.table is not table:
            table = own.table
            yield from ("", *wrap(summary(table)))
        yield from row(flag.rstrip(), own.text, column)


def description(kind: type) -> list[str]:
    """The docstring of a command; a paragraph of examples keeps its lines."""
    found: list[str] = []
    for paragraph in paragraphs(kind):
        if paragraph.startswith(EXAMPLE):
            found += [f"  {line.strip()}" for line in paragraph.splitlines()]
        else:
            found += wrap(paragraph)
        found.append("")
    return found[:-1]


def summary(kind: type) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(next(paragraphs(kind)).split())


def paragraphs(kind: type) -> Iterator[str]:
    """The paragraphs of the docstring of a dataclass, or else of its base."""
    texts = ((own.__doc__ or "", own.__name__) for own in kind.__mro__)
    text = next(text for text, name in texts if text and not text.startswith(f"{name}("))
    yield from inspect.cleandoc(text).split("\n\n")


def row(name: str, text: str, column: int) -> list[str]:
    """A name, and next to it a text from this column on."""
    lines = [" " * column + line for line in wrap(text, WIDTH - column)] or [""]
    if len(name) + 4 > column:
        name = name if len(name) + 2 <= WIDTH else name.replace(",", ", ")
        return [*wrap(f"  {name}", WIDTH, " " * 4), *lines]
    return [f"{'  ' + name:<{column}}{lines[0].lstrip()}".rstrip(), *lines[1:]]


def wrap(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def chosen(command: str, kind: type, words: Sequence[str]) -> tuple[str, type]:
    """Name and arguments of the subcommand that the words begin with, or else of the command."""
    own = subcommands(kind).get(words[0]) if words else None
    return (f"{command} {words[0]}", own) if own else (command, kind)


def subcommands(kind: type) -> dict[str, type]:
    """Name → arguments of each subcommand, if the only field is a choice of some."""
    _, hint, _ = next(fields_of(kind))
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return {}
    parts = [typing.get_args(part) for part in typing.get_args(hint)]
    return {part[1].name: part[0] for part in parts if len(part) == 2}


def fields_of(kind: type) -> Iterator[tuple[Any, Any, Sequence[Any]]]:
    """Each field with its type and what is annotated for tyro."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if typing.get_origin(hint) is typing.Annotated:
            inner, *notes = typing.get_args(hint)
            yield field, inner, notes
        else:
            yield field, hint, ()


def options(kind: type, given: Any = None, prefix: str = "") -> Iterator[Option]:
    """All flags and arguments, those without a table first."""
    texts, tables = field_texts(kind), []
    for field, hint, notes in fields_of(kind):
        default = getattr(given, field.name) if given else default_of(field)
        # tyro.conf.arg makes such a note; its class is private, its attributes are the arguments.
        name, metavar = (
            next((found for note in notes if (found := getattr(note, key, None)) is not None), None)
            for key in ("name", "metavar")
        )
        own = field.name.replace("_", "-") if name is None else name
        if SUPPRESSED in notes:
            continue
        if dataclasses.is_dataclass(default):
            tables.append((type(default), default, f"{prefix}{own}." if own else prefix))
            continue
        declared = field.metadata.get("setting") or Setting(texts.get(field.name, ""))
        value = describe(hint)
        if POSITIONAL in notes:
            own = metavar or (value if get_choices(hint) else field.name.upper())
        else:
            negated = "[no-]" if default is True else ""
            own = f"--{(prefix + negated + own).rstrip('.')}"
        yield Option(own, value, declared, default, kind)
    for table in tables:
        yield from options(*table)


def default_of(field: Any) -> Any:
    """The default of a field, or MISSING."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def get_choices(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def describe(hint: Any) -> str:
    """What a flag of this type takes: INT, {best,last}, PATH …; empty for a switch."""
    if hint is bool:
        return ""
    for known in (ONE_WORD, SEVERAL_WORDS):
        if hint in known:
            return str(known[hint][0])
    if choices := get_choices(hint):
        return f"{{{','.join(map(str, choices))}}}"
    if typing.get_origin(hint) is tuple:
        return f"{describe(typing.get_args(hint)[0])} …"
    return str(getattr(hint, "__name__", hint)).upper()


def field_texts(kind: type) -> dict[str, str]:
    """Name → the text below a field, of a dataclass and its bases."""
    found = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        with suppress(OSError, TypeError, SyntaxError):  # it has no source
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            for field, text in itertools.pairwise(getattr(tree, "body", [])):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ):
                        found[name] = " ".join(words.split())
    return found
