"""Prompts, answers and pairs in a file of JSON lines, by the columns that TRL names them by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.errors import ConfigError
from rlox.llm.codecs import Ask, Codec, Messages, tokens_of
from rlox.llm.prompts import Prompt, cut, learned_after
from rlox.llm.rows import WHOLE, answer_of, read_row, template_of
from rlox.llm.tasks import is_held_out
from rlox.llm.token_cache import TokenCache
from rlox.llm.turns import ONLY, assistant_mask, turn_asks

__all__ = ["DatasetPrompts", "Row", "TextDataset"]

Ids = NDArray[np.int64]
AT_ONCE = 1024  # rows that become tokens together


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
    functions may ask for any column. With `assistant_only` tokens that the assistant of a conversation does
    not say are marked as not learned.
    """

    def __init__(
        self, path: Path, codec: Codec, key: str = "dataset", assistant_only: bool = False
    ) -> None:
        self.path, self._key, self._codec = Path(path), key, codec
        self._assistant_only = assistant_only
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
        self.digest = hashlib.sha256(data).hexdigest()
        self.kind: tuple[str, ...] = ()
        lines = [(n, line) for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if not lines:
            raise ConfigError(f"{key}={path} has no rows, expected JSON objects, one a line")
        self.rows = self._rows(lines)

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

    @property
    def columns(self) -> frozenset[str]:
        """The names that its rows have; a row may lack some."""
        return frozenset[str]().union(*(row.prompt.columns or () for row in self.rows))

    @property
    def conversation(self) -> tuple[Messages, Mapping[str, Any]] | None:
        """The first row up to its answer, and its arguments of the chat template; None of texts."""
        prompt = self.rows[0].prompt
        asked = _asked(prompt)
        return None if isinstance(asked, str) else (asked, template_of(prompt.columns or {}))

    def _at(self, line: int) -> str:
        return f"{self._key}={self.path}, line {line}"

    def _rows(self, lines: Sequence[tuple[int, bytes]]) -> list[Row]:
        """All rows, of tokens that an earlier run kept where one did."""
        options = {"assistant_only": self._assistant_only}
        kept = TokenCache(self.digest, len(lines), self._codec, options)
        parts = range(0, len(lines), AT_ONCE)
        rows = [row for i in parts for row in self._part(lines[i : i + AT_ONCE], kept)]
        kept.keep()
        return rows

    def _part(self, lines: Sequence[tuple[int, bytes]], kept: TokenCache) -> list[Row]:
        """Some rows, whose texts become tokens together: one by one that takes many times as long."""
        read = [(number, self._columns_of(number, line)) for number, line in lines]
        asks = [self._asked_of(number, row) for number, row in read]
        found = kept.take(sum(map(len, asks)))
        if found is None:
            found = self._made(lines, asks)
            kept.add(found)
        rows, first = list[Row](), 0
        for (number, row), of in zip(read, asks, strict=True):
            rows.append(self._row(number, row, found[first : first + len(of)]))
            first += len(of)
        return rows

    def _made(self, lines: Sequence[tuple[int, bytes]], asks: Sequence[list[Ask]]) -> list[Ids]:
        try:
            return tokens_of(self._codec, [ask for of in asks for ask in of])
        except (ConfigError, RecursionError, TypeError, ValueError):
            each = (self._tokens(n, of) for (n, _), of in zip(lines, asks, strict=True))
            return [ids for of in each for ids in of]  # or which line it is

    def _tokens(self, number: int, asks: Sequence[Ask]) -> list[Ids]:
        with self._told(number):
            return tokens_of(self._codec, asks)

    @contextmanager
    def _told(self, number: int) -> Iterator[None]:
        """What is wrong with a line is told with its number."""
        try:
            yield
        except (ConfigError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"{self._at(number)}: {error}") from error

    def _columns_of(self, number: int, line: bytes) -> dict[str, Any]:
        """Those of a line, which is of the same kind as lines before it."""
        kind, row = read_row(line, self._at(number), number == 1)
        self.kind = self.kind or kind
        if kind != self.kind:
            raise ConfigError(
                f"{self._at(number)} has columns {', '.join(kind)}, and lines before it "
                f"{', '.join(self.kind)}"
            )
        return row

    def _asked_of(self, number: int, row: Mapping[str, Any]) -> list[Ask]:
        """What there have to be tokens of: prompt, answers, and for an open prompt it as it is."""
        with self._told(number):
            template = template_of(row)
            whole = [_whole(row, name) for name in self._answers(row)]
            texts = isinstance(whole[0] if whole else row["prompt"], str)
            asks = [Ask(said, "ended" if texts else "", template) for said in whole]
            if self.kind not in WHOLE:
                asks.append(Ask(row["prompt"], "text" if texts else "answer", template))
                if not texts and _is_open(row["prompt"]):
                    asks.append(Ask(row["prompt"], "more", template))
            if self._assistant_only:
                if texts:
                    raise ConfigError(
                        f"{ONLY}: these are texts, expected a conversation (messages)"
                    )
                asks += turn_asks(self._codec, whole[0], template) if whole else []
            return asks

    def _answers(self, row: Mapping[str, Any]) -> list[str]:
        """The columns that end with what is learned."""
        if self.kind in WHOLE:
            return list(self.kind)
        return [name for name in ("completion", "chosen", "rejected") if name in row]

    def _row(self, number: int, row: Mapping[str, Any], found: list[Ids]) -> Row:
        """A row, of the tokens that `_asked_of` asks for."""
        with self._told(number):
            count = len(self._answers(row))
            whole, rest = found[:count], found[count:]
            if self.kind in WHOLE:
                made = cut(whole[0][:1], whole, None, row)
            else:
                made = cut(rest.pop(0), whole, answer_of(row), row)
                if not isinstance(row["prompt"], str) and _is_open(row["prompt"]):
                    # to be written on, where what is learned begins anew
                    begun = torch.from_numpy(rest.pop(0))
                    made = made._replace(ids=begun, before=learned_after(made))
            if self._assistant_only and made.right is not None:
                mask = torch.from_numpy(assistant_mask(whole[0], rest)[-len(made.right) :].copy())
                if not mask.any():
                    raise ConfigError(f"{ONLY}: nothing of the answer is the assistant's")
                made = made._replace(learned=mask)
            return Row(number, made)


def _whole(row: Mapping[str, Any], name: str) -> Any:
    """An answer with its prompt, or all of a row that has none."""
    return row["prompt"] + row[name] if "prompt" in row else row[name]


def _is_open(messages: Messages) -> bool:
    """Whether a prompt ends with what its answer goes on with."""
    return bool(messages[-1]["role"] == "assistant")


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
        known = [of.columns for of in (dataset, held_out) if of is not None]
        self.columns: Collection[str] = frozenset.intersection(*known)
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
