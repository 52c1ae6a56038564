"""Parsing of a line of a JSON Lines file, with TRL's column names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from rlox.errors import ConfigError

__all__ = ["COLUMNS", "FULL_TEXT_KINDS", "RESERVED_COLUMNS", "get_answer", "read_row", "template_arguments"]

# Columns of each kind of row; a value is a text, or messages {"role": ..., "content": ...}.
ROW_KINDS = (
    ("messages",),
    ("text",),
    ("prompt", "completion"),
    ("prompt", "chosen", "rejected"),
    ("chosen", "rejected"),
    ("prompt",),
)
FULL_TEXT_KINDS = (("messages",), ("text",))  # kinds in which the prompt is not separate from the answer
COLUMNS = frozenset(name for kind in ROW_KINDS for name in kind)
ROLES = ("system", "user", "assistant", "tool", "developer")
MAX_DEPTH = 100  # nesting of lists and objects; copying them is recursive
# Magic bytes of other formats, with hints.
OTHER_FORMATS = {
    b"PAR1": "Parquet: pandas.read_parquet(FILE).to_json(OUT, orient='records', lines=True)",
    b"\x1f\x8b": "compressed (gzip): unpack it",
    b"BZh": "compressed (bzip2): unpack it",
    b"\xfd7zXZ": "compressed (xz): unpack it",
    b"(\xb5/\xfd": "compressed (zstd): unpack it",
    b"PK\x03\x04": "compressed (zip): unpack it",
}

# Argument names of reward functions, which columns may not have.
RESERVED_COLUMNS = ("texts", "prompts", "completions")


def read_row(line: bytes, place: str, is_first: bool = False) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the kind of a line and its columns.

    If `chosen` and `rejected` contain the prompt, it becomes a separate column. `place` names the line in
    messages; `is_first` marks the first line of the file. Raises `ConfigError` unless the line is an object
    with the columns of a kind.
    """
    row = _parse_line(line, place, is_first)
    known_columns = tuple(sorted(COLUMNS & row.keys())) if isinstance(row, dict) else ()
    kind = next((kind for kind in ROW_KINDS if tuple(sorted(kind)) == known_columns), None)
    if kind is None:
        column_text = ", ".join(map(str, row)) or "none" if isinstance(row, dict) else ""
        description = f"has columns {column_text:.80}" if isinstance(row, dict) else "is no object"
        kinds = "; ".join(", ".join(names) for names in ROW_KINDS)
        raise ConfigError(f"{place} {description}, expected an object with the columns of one of: {kinds}")
    for name in kind:
        _require_text(f"{place}: {name}", row[name], is_conversation=name == "messages")
    if len({isinstance(row[name], str) for name in kind}) > 1:
        raise ConfigError(f"{place}: {', '.join(kind)} mix texts and messages, expected one kind")
    if reserved := next((name for name in RESERVED_COLUMNS if name in row), None):
        raise ConfigError(f"{place}: a column {reserved}, an argument of reward functions: rename the column")
    if kind == ("chosen", "rejected"):
        prompt = _common_prompt(place, row["chosen"], row["rejected"])
        answers = {name: row[name][len(prompt) :] for name in kind}
        row = {**row, **answers, "prompt": prompt}
    return kind, row


def _parse_line(line: bytes, place: str, is_first: bool) -> Any:
    """Parse a line as JSON."""
    try:
        row = json.loads(line, object_pairs_hook=partial(_reject_duplicate_keys, place))
    except ConfigError:
        raise
    except RecursionError:
        row, is_too_deep = None, True
    except ValueError as error:
        format_hint = _format_hint(line) if is_first else ""
        raise ConfigError(f"{place} is no JSON: {error}{format_hint}") from error
    else:
        is_too_deep = line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_deep(row)
    if is_too_deep:
        raise ConfigError(f"{place} has lists or objects nested more than {MAX_DEPTH} deep")
    return row


def _reject_duplicate_keys(place: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; `ConfigError` for a duplicate key, of which JSON would silently keep the last."""
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(
            f"{place} has the key {duplicate!r:.60} twice, expected once; leave one of them out"
        )
    return row


def _is_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        children = (
            value_inside.values() if isinstance(value_inside, dict) else value_inside
            for value_inside in level
        )
        level = [part for value_inside in children for part in value_inside if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _format_hint(line: bytes) -> str:
    """Return a hint if the line begins a file of another format, with how to convert it."""
    description = next(
        (format_text for magic_bytes, format_text in OTHER_FORMATS.items() if line.startswith(magic_bytes)),
        None,
    )
    return "" if description is None else f"; the file is {description}"


def template_arguments(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's further arguments of the chat template; `tools` may be JSON text."""
    tools, extra_arguments = row.get("tools"), row.get("chat_template_kwargs")
    tools = json.loads(tools) if isinstance(tools, str) and tools else tools
    if not isinstance(tools, list | None) or not isinstance(extra_arguments, dict | None):
        raise ConfigError("tools or chat_template_kwargs: expected a list (tools) and an object (kwargs)")
    return {**(extra_arguments or {}), **({"tools": tools} if tools else {})}


def get_answer(row: Mapping[str, Any]) -> str | None:
    """Return the correct answer of a row as text; None without one."""
    answer = row.get("completion", row.get("answer"))
    if isinstance(answer, list) and answer and _is_message(answer[-1]):
        answer = answer[-1].get("content")
    if isinstance(answer, int) and not isinstance(answer, bool):
        answer = str(answer)
    return answer if isinstance(answer, str) else None


def _common_prompt(place: str, chosen: Any, rejected: Any) -> Any:
    """Return the common beginning of two texts or conversations; a space at the end of a text is left out."""
    equal_pairs = list(takewhile(lambda pair: pair[0] == pair[1], zip(chosen, rejected, strict=False)))
    prompt = chosen[: len(equal_pairs)]
    if isinstance(prompt, str) and prompt.endswith(" "):
        prompt = prompt[:-1]
    if not prompt:
        raise ConfigError(f"{place}: chosen and rejected have no common beginning, expected a prompt")
    return prompt


def _require_text(place: str, value: Any, is_conversation: bool) -> None:
    """Raise `ConfigError` unless a value is a non-empty text or messages."""
    if isinstance(value, str) and not is_conversation:
        if not value:
            raise ConfigError(f"{place} is empty, expected a text")
        return
    is_valid = isinstance(value, list) and value and all(_is_message(part) for part in value)
    if not is_valid:
        raise ConfigError(
            f"{place} is {value!r:.60}, expected {'' if is_conversation else 'a text, or '}messages "
            '{"role": ..., "content": ...} of ' + ", ".join(ROLES)
        )


def _is_message(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("role") in ROLES and ("content" in part or "tool_calls" in part)
    )
