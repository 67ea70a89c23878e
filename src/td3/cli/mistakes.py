"""One sentence about wrong arguments, from tyro's boxed error message.

The text is parsed because tyro has no public structured errors: `tyro._errors` is declared private
and unstable, and `return_unknown_args` covers only one kind of error.
"""

import re
from collections.abc import Sequence
from typing import Any

from td3.cli.help import options, subcommands
from td3.config import setting_near

UNKNOWN = "Unrecognized options: "
INVALID = re.compile(r"invalid choice '(.*)' for argument '(.*)'\. Expected \w+ of (.*)")
NOTHING = re.compile(r"(?:Expected one of|Missing from td3 [\w ]+:) \{(.*?)\}")
QUOTED = re.compile(r"'(.*?)'")


def sentence(box: str, command: str, kind: Any) -> str:
    """What is wrong, the nearest option, and where the help is."""
    filled = box_sections(box)
    text = filled[0] if filled else "The arguments could not be read"
    perhaps = next((own for own in filled[1:] if own.startswith("Perhaps you meant")), "")
    option = re.search(r"--[\w.-]+", perhaps)
    near = option.group() if option else ""
    if text.startswith(UNKNOWN):
        text = unknown(text.removeprefix(UNKNOWN).split(", "), command, kind, near)
    elif found := INVALID.match(text):
        value, name, choices = found.groups()
        where = f"{name}: " if name.startswith("-") else ""
        text = f"{where}{value!r} is not one of {', '.join(QUOTED.findall(choices))}."
    elif found := re.match(r"Missing value for argument '(.*)'", text):
        text = f"{found[1]} needs a value."
    elif found := NOTHING.match(text):
        text = f"Give {listed(found[1].split(','), 'or')}."
    elif found := re.match(r"Missing from td3 [\w ]+: (\S+)", text):
        text = f"{found[1]} is missing."
    else:
        text = text.removeprefix("Error parsing ").rstrip(".!") + "."
        text = text[0].upper() + text[1:]
    return f"{text} See 'td3 {command} --help'."


def unknown(words: list[str], command: str, kind: Any, near: str) -> str:
    """What is wrong with words that the command does not know."""
    flag = next((word for word in words if word.startswith("-")), "")
    if not flag:
        return too_many(words[0], kind)
    name, equals, value = flag.partition("=")
    if command in ("train", "tune"):
        setting = setting_near(name.lstrip("-")).replace("_", "-")
        if setting == "environment.id":
            following = value if equals else next(iter(words[words.index(flag) + 1 :]), "")
            task = following if following and not following.startswith("-") else "Pendulum-v1"
            return f"Unknown option {name}. The task needs no flag: td3 {command} {task}."
        setting = "steps" if setting == "loop.steps" else setting
        near = f"--{setting}" if setting else near
    return f"Unknown option {name}." + (f" Did you mean {near}?" if near else "")


def too_many(word: str, kind: Any) -> str:
    """What is wrong with an argument for which there is no place."""
    if commands := subcommands(kind):
        return f"{word!r} is not one of {', '.join(commands)}."
    names = [own.name for own in options(kind) if not own.is_flag]
    if len(names) == 1:
        return f"Only one {names[0]} is allowed, got also {word}."
    return f"Only {listed(names, 'and') or 'options'} are allowed, got also {word}."


def listed(names: Sequence[str], word: str) -> str:
    """The names as `a, b and c`."""
    names = [name.strip() for name in names]
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def box_sections(box: str) -> list[str]:
    """The paragraphs of tyro's box, without its title, lines and colours."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", box)
    sections: list[list[str]] = [[]]
    for line in (line.strip("│ ").strip() for line in plain.splitlines()):
        if line.startswith(("╭", "╰", "─", "---")):
            sections.append([])
        elif line:
            sections[-1].append(line)
    return [" ".join(section) for section in sections[1:] if section]
