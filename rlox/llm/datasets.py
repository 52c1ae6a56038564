"""Prompts, answers and pairs in a file of JSON lines, by the columns that TRL names them by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.errors import ConfigError
from rlox.llm.codecs import Codec
from rlox.llm.prompts import Prompt, cut, learned_after
from rlox.llm.tasks import is_held_out

__all__ = ["DatasetPrompts", "Row", "TextDataset"]

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


# What reward functions are handed under these names is something else.
TAKEN = ("texts", "prompts", "completions")


class Row(NamedTuple):
    """A prompt, and where it stands."""

    line: int
    prompt: Prompt

    @property
    def longest(self) -> int:
        """Tokens of its prompt with the longer of its answers."""
        prompt = self.prompt
        answers = [len(a) for a in (prompt.right, prompt.wrong) if a is not None]
        return max([len(prompt.ids), *(len(learned_after(prompt)) + n for n in answers)])


class TextDataset:
    """All rows of a file, as tokens.

    `messages` or `text` is learned from its second token on; a `completion` (or `chosen`, `rejected`) begins
    where tokens with it differ from those of the `prompt` alone, as TRL has it; a text gets an end. Reward
    functions may ask for any column.
    """

    def __init__(self, path: Path, codec: Codec, key: str = "dataset") -> None:
        self.path, self._key, self._codec = Path(path), key, codec
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
        self.digest = hashlib.sha256(data).hexdigest()
        self.kind: tuple[str, ...] = ()
        self.rows = [
            self._row(number, line)
            for number, line in enumerate(data.split(b"\n"), 1)
            if line.strip()
        ]
        if not self.rows:
            raise ConfigError(f"{key}={path} has no rows, expected JSON objects, one a line")

    def require_room(self, tokens: int | None, new: int) -> None:
        """`ConfigError` for a row that so many positions cannot hold, with `new` tokens to be written."""
        if tokens is None:
            return
        for row in self.rows:
            writes = len(row.prompt.ids) + new if new else 0
            if max(row.longest, writes) > tokens:
                told = f", {new} of them to be written (algo.max_new_tokens)" if writes else ""
                raise ConfigError(
                    f"{self._at(row.line)} has {max(row.longest, writes)} tokens{told}, and the model "
                    f"positions for {tokens}: leave it out or cut it"
                )

    def require_answers(self) -> None:
        """`ConfigError` for a row that says no right answer."""
        for row in self.rows:
            if row.prompt.answer is None:
                raise ConfigError(
                    f"{self._at(row.line)} says no right answer, which algo.rewards asks for: expected a "
                    "column completion, or a text or whole number as answer"
                )

    def require_like(self, other: TextDataset) -> None:
        """`ConfigError` where its rows have not what those of another have."""
        if missing := sorted(set(other.kind) - set(self.kind)):
            raise ConfigError(
                f"{self._key}={self.path} has no column {missing[0]}, and the dataset has "
                f"{', '.join(other.kind)}"
            )

    def _at(self, line: int) -> str:
        return f"{self._key}={self.path}, line {line}"

    def _row(self, number: int, line: bytes) -> Row:
        at = self._at(number)
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{at} is no JSON: {error}") from error
        there = tuple(sorted(COLUMNS & row.keys())) if isinstance(row, dict) else ()
        kind = next((kind for kind in KINDS if tuple(sorted(kind)) == there), None)
        if kind is None:
            named = ", ".join(map(str, row)) or "none" if isinstance(row, dict) else ""
            told = f"columns {named:.80}" if isinstance(row, dict) else "no object"
            kinds = "; ".join(", ".join(names) for names in KINDS)
            raise ConfigError(f"{at} has {told}, expected those of one of: {kinds}")
        self.kind = self.kind or kind
        if kind != self.kind:
            raise ConfigError(
                f"{at} has columns {', '.join(kind)}, and lines before it {', '.join(self.kind)}"
            )
        for name in kind:
            _require_text(f"{at}: {name}", row[name], conversation=name == "messages")
        if len({isinstance(row[name], str) for name in kind}) > 1:
            raise ConfigError(
                f"{at}: {', '.join(kind)} are texts and messages, expected one of both"
            )
        if taken := next((name for name in TAKEN if name in row), None):
            raise ConfigError(
                f"{at}: a column {taken}, which reward functions have: call it otherwise"
            )
        try:
            return Row(number, self._prompt(kind, row))
        except (ConfigError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"{at}: {error}") from error

    def _prompt(self, kind: tuple[str, ...], row: Mapping[str, Any]) -> Prompt:
        if kind in WHOLE:
            ids = self._ids(row[kind[0]], row)
            return cut(ids[:1], [ids], None, row)
        if kind == ("chosen", "rejected"):
            begin = _common(row["chosen"], row["rejected"])
            rest = {name: row[name][len(begin) :] for name in kind}
            row = {**row, **rest, "prompt": begin}
        prompt, answer = row["prompt"], _answer(row)
        names = [name for name in ("completion", "chosen", "rejected") if name in row]
        whole = [self._ids(prompt + row[name], row) for name in names]
        if isinstance(prompt, str):
            return cut(self._codec.encode(prompt), whole, answer, row)
        more = prompt[-1]["role"] == "assistant"
        asked = self._codec.chat(prompt, "answer", _template(row))
        made = cut(asked, whole, answer, row)
        if not more:
            return made
        # to be written on, where what is learned begins anew
        begun = torch.from_numpy(self._codec.chat(prompt, "more", _template(row)))
        return made._replace(ids=begun, before=learned_after(made))

    def _ids(self, text: Any, row: Mapping[str, Any]) -> NDArray[np.int64]:
        """Of a text with its end, or of messages, which have their own."""
        if isinstance(text, str):
            return self._codec.encode(text, end=True)
        return self._codec.chat(text, "", _template(row))


def _template(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says to a chat template beside its messages; tools may be JSON."""
    tools, more = row.get("tools"), row.get("chat_template_kwargs")
    tools = json.loads(tools) if isinstance(tools, str) and tools else tools
    if not isinstance(tools, list | None) or not isinstance(more, dict | None):
        raise ConfigError("tools or chat_template_kwargs: expected a list, and an object")
    return {**(more or {}), **({"tools": tools} if tools else {})}


def _answer(row: Mapping[str, Any]) -> str | None:
    """The text that is right, where a row says one."""
    said = row.get("completion", row.get("answer"))
    if isinstance(said, list) and said and _is_message(said[-1]):
        said = said[-1].get("content")
    if isinstance(said, int) and not isinstance(said, bool):
        said = str(said)
    return said if isinstance(said, str) else None


def _common(one: Any, other: Any) -> Any:
    """What two texts, or conversations, begin with; a text up to a word."""
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    found = one[: len(same)]
    if isinstance(found, str) and found.endswith(" "):
        found = found[:-1]
    if not found:
        raise ConfigError("chosen and rejected begin with nothing that both have, a prompt")
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


class DatasetPrompts:
    """The rows of a file, in another order each time through; some are held out.

    Parameters
    ----------
    dataset : to learn from
    held_out : to evaluate by; None: those of `dataset` whose prompts have a hash in the lowest fifth, which
        are then not learned from
    seed : of the run
    codec : of their tokens
    """

    def __init__(
        self, dataset: TextDataset, held_out: TextDataset | None, seed: int, codec: Codec
    ) -> None:
        rows = [row.prompt for row in dataset.rows]
        if held_out is None:
            apart = [is_held_out(json.dumps(_asked(row), sort_keys=True)) for row in rows]
            self._held = [row for row, there in zip(rows, apart, strict=True) if there]
            rows = [row for row, there in zip(rows, apart, strict=True) if not there]
        else:
            self._held = [row.prompt for row in held_out.rows]
        if not rows or not self._held:
            told = "held out" if rows else "left to learn from"
            raise ConfigError(
                f"dataset={dataset.path}: of its {len(dataset.rows)} rows none is {told}, where a fifth is "
                "held out by the prompts; set eval_dataset=FILE"
            )
        self._rows, self._seed, self.text = rows, seed, codec
        # which rows are learned from
        whole = held_out is not None
        files = {"dataset": dataset.digest, "tokenizer": codec.digest, "whole": whole}
        self.digests: Mapping[str, Any] = files
        self.prompted = dataset.kind not in WHOLE
        self._order: tuple[int, NDArray[np.int64]] = -1, np.empty(0, np.int64)

    def learned(self, first: int, count: int) -> list[Prompt]:
        """Number k is one of the time k // rows through, in an order that the seed and that time say."""
        return [self._number(k) for k in range(first, first + count)]

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """As many as there are from `first` on, in an order that the seed says."""
        order = Stream(seed, "held_out").permutation(len(self._held))
        return [self._held[i] for i in order[first : first + count]]

    def paired(self, prompt: Prompt, number: int) -> Prompt:
        """As it is."""
        return prompt

    def _number(self, k: int) -> Prompt:
        time, at = divmod(k, len(self._rows))
        if self._order[0] != time:
            self._order = time, Stream(self._seed, "order", time).permutation(len(self._rows))
        return self._rows[int(self._order[1][at])]


def _asked(prompt: Prompt) -> Any:
    """What tells a row from others: its prompt, messages up to the last answer, or a whole text."""
    columns = prompt.columns or {}
    asked = next(columns[name] for name in ("prompt", "messages", "text") if name in columns)
    if "messages" in columns and asked[-1]["role"] == "assistant" and len(asked) > 1:
        return asked[:-1]
    return asked
