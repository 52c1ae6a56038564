"""A line of a file of JSON lines: its columns, by the names that TRL has for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from rlox.errors import ConfigError

__all__ = ["COLUMNS", "TAKEN", "WHOLE", "answer_of", "read_row", "template_of"]

# The columns of each kind of row; a value is a text, or messages {"role": ..., "content": ...}.
KINDS = (
    ("messages",),
    ("text",),
    ("prompt", "completion"),
    ("prompt", "chosen", "rejected"),
    ("chosen", "rejected"),
    ("prompt",),
)
WHOLE = (("messages",), ("text",))  # of which nothing is a prompt
COLUMNS = frozenset(name for kind in KINDS for name in kind)
ROLES = ("system", "user", "assistant", "tool", "developer")
DEEP = 100  # lists and objects in each other, which copies of them go through one by one
# How files of other formats begin.
FORMATS = {
    b"PAR1": "Parquet: pandas.read_parquet(FILE).to_json(OUT, orient='records', lines=True)",
    b"\x1f\x8b": "compressed (gzip): unpack it",
    b"BZh": "compressed (bzip2): unpack it",
    b"\xfd7zXZ": "compressed (xz): unpack it",
    b"(\xb5/\xfd": "compressed (zstd): unpack it",
    b"PK\x03\x04": "compressed (zip): unpack it",
}

# What reward functions are handed under these names is something else.
TAKEN = ("texts", "prompts", "completions")


def read_row(line: bytes, at: str, first: bool = False) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The kind of a line and its columns; of two answers that begin with a prompt this is one of them.

    `at` is what messages call the line, `first` whether the file begins with it. `ConfigError` for what is no
    object with the columns of a kind.
    """
    row = _object(line, at, first)
    there = tuple(sorted(COLUMNS & row.keys())) if isinstance(row, dict) else ()
    kind = next((kind for kind in KINDS if tuple(sorted(kind)) == there), None)
    if kind is None:
        named = ", ".join(map(str, row)) or "none" if isinstance(row, dict) else ""
        told = f"columns {named:.80}" if isinstance(row, dict) else "no object"
        kinds = "; ".join(", ".join(names) for names in KINDS)
        raise ConfigError(f"{at} has {told}, expected those of one of: {kinds}")
    for name in kind:
        _require_text(f"{at}: {name}", row[name], conversation=name == "messages")
    if len({isinstance(row[name], str) for name in kind}) > 1:
        raise ConfigError(f"{at}: {', '.join(kind)} are texts and messages, expected one of both")
    if taken := next((name for name in TAKEN if name in row), None):
        raise ConfigError(f"{at}: a column {taken}, which reward functions have: call it otherwise")
    if kind == ("chosen", "rejected"):
        begin = _common(at, row["chosen"], row["rejected"])
        rest = {name: row[name][len(begin) :] for name in kind}
        row = {**row, **rest, "prompt": begin}
    return kind, row


def _object(line: bytes, at: str, first: bool) -> Any:
    """What JSON a line is."""
    try:
        row = json.loads(line, object_pairs_hook=partial(_once, at))
    except ConfigError:
        raise
    except RecursionError:
        row, deep = None, True
    except ValueError as error:
        told = _format_of(line) if first else ""
        raise ConfigError(f"{at} is no JSON: {error}{told}") from error
    else:
        deep = line.count(b"[") + line.count(b"{") > DEEP and _is_deep(row)
    if deep:
        raise ConfigError(f"{at} has lists or objects more than {DEEP} deep in each other")
    return row


def _once(at: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a line; `ConfigError` for a key that it has twice, of which the last would count."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(
            f"{at} has the key {twice!r:.60} twice, expected once; leave one of them out"
        )
    return found


def _is_deep(value: Any) -> bool:
    """Whether lists and objects are more than `DEEP` deep in each other."""
    level = [value]
    for _ in range(DEEP + 1):
        inner = (of.values() if isinstance(of, dict) else of for of in level)
        level = [part for of in inner for part in of if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _format_of(line: bytes) -> str:
    """Of which other format a file is that begins so, and what makes JSON lines of it."""
    found = next((told for begin, told in FORMATS.items() if line.startswith(begin)), None)
    return "" if found is None else f"; the file is {found}"


def template_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says to a chat template beside its messages; tools may be JSON."""
    tools, more = row.get("tools"), row.get("chat_template_kwargs")
    tools = json.loads(tools) if isinstance(tools, str) and tools else tools
    if not isinstance(tools, list | None) or not isinstance(more, dict | None):
        raise ConfigError("tools or chat_template_kwargs: expected a list, and an object")
    return {**(more or {}), **({"tools": tools} if tools else {})}


def answer_of(row: Mapping[str, Any]) -> str | None:
    """The text that is right, where a row says one."""
    said = row.get("completion", row.get("answer"))
    if isinstance(said, list) and said and _is_message(said[-1]):
        said = said[-1].get("content")
    if isinstance(said, int) and not isinstance(said, bool):
        said = str(said)
    return said if isinstance(said, str) else None


def _common(at: str, one: Any, other: Any) -> Any:
    """What two texts, or conversations, begin with; a text up to a word."""
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    found = one[: len(same)]
    if isinstance(found, str) and found.endswith(" "):
        found = found[:-1]
    if not found:
        raise ConfigError(f"{at}: chosen and rejected begin with nothing that both have, a prompt")
    return found


def _require_text(at: str, value: Any, conversation: bool) -> None:
    """A text, or messages."""
    if isinstance(value, str) and not conversation:
        if not value:
            raise ConfigError(f"{at} is empty, expected a text")
        return
    good = isinstance(value, list) and value and all(_is_message(part) for part in value)
    if not good:
        raise ConfigError(
            f"{at} is {value!r:.60}, expected {'' if conversation else 'a text, or '}messages "
            '{"role": ..., "content": ...} of ' + ", ".join(ROLES)
        )


def _is_message(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("role") in ROLES
        and ("content" in part or "tool_calls" in part)
    )
