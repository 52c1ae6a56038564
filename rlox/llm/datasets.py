"""Datasets of prompts, answers and pairs in JSON Lines files, with TRL's column names."""

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
from rlox.llm.chat_turns import SETTING, assistant_mask, turn_requests
from rlox.llm.codecs import Codec, Messages, TokenizeRequest, tokenize
from rlox.llm.jsonl_rows import FULL_TEXT_KINDS, get_answer, read_row, template_arguments
from rlox.llm.prompts import Prompt, answer_context, split_answers
from rlox.llm.tasks import is_held_out
from rlox.llm.token_cache import TokenCache

__all__ = ["DatasetPrompts", "Row", "TextDataset"]

Ids = NDArray[np.int64]
ROWS_AT_ONCE = 1024  # rows tokenized in one call


class Row(NamedTuple):
    """A prompt and its line number."""

    line: int
    prompt: Prompt

    @property
    def max_tokens(self) -> int:
        """Number of tokens of the prompt with the longer answer."""
        prompt = self.prompt
        lengths = [len(a) for a in (prompt.answer_ids, prompt.rejected_ids) if a is not None]
        return max([len(prompt.ids), *(len(answer_context(prompt)) + n for n in lengths)])


class TextDataset:
    """All rows of a file, as tokens.

    The loss covers `messages` and `text` from the second token on. A `completion` (or `chosen`, `rejected`)
    begins where the tokens of prompt and completion differ from those of the `prompt` alone, as in TRL. A
    text gets an EOS. Reward functions may take any column. `assistant_only` excludes tokens that are not the
    assistant's from the loss.
    """

    def __init__(self, path: Path, codec: Codec, key: str = "dataset", assistant_only: bool = False) -> None:
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
        self.rows = self._tokenize_rows(lines)

    def require_positions(self, max_positions: int | None, max_new_tokens: int) -> None:
        """Raise `ConfigError` for a row with more tokens than `max_positions`, `max_new_tokens` included."""
        if max_positions is None:
            return
        for row in self.rows:
            total_tokens = len(row.prompt.ids) + max_new_tokens if max_new_tokens else 0
            if max(row.max_tokens, total_tokens) > max_positions:
                generation_text = (
                    f", {max_new_tokens} of them to generate (algo.max_new_tokens)" if total_tokens else ""
                )
                raise ConfigError(
                    f"{self._place(row.line)} has {max(row.max_tokens, total_tokens)} "
                    f"tokens{generation_text}, and the model has positions for {max_positions}: remove the "
                    "row or shorten it"
                )

    def require_answers(self) -> None:
        """Raise `ConfigError` for a row without a correct answer."""
        for row in self.rows:
            if row.prompt.answer is None:
                raise ConfigError(
                    f"{self._place(row.line)} has no right answer, which algo.rewards needs: expected a "
                    "column completion, or a text or whole number in a column answer"
                )

    def require_same_columns(self, other: TextDataset) -> None:
        """Raise `ConfigError` if a column of the `other` dataset is missing."""
        if missing := sorted(set(other.kind) - set(self.kind)):
            raise ConfigError(
                f"{self._key}={self.path} has no column {missing[0]}, and the dataset has "
                f"{', '.join(other.kind)}"
            )

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns of all rows; a single row may lack some."""
        return frozenset[str]().union(*(row.prompt.columns or () for row in self.rows))

    @property
    def conversation(self) -> tuple[Messages, Mapping[str, Any]] | None:
        """The first conversation up to its answer, with its chat template arguments; None for texts."""
        prompt = self.rows[0].prompt
        key = _split_key(prompt)
        return None if isinstance(key, str) else (key, template_arguments(prompt.columns or {}))

    def _place(self, line: int) -> str:
        return f"{self._key}={self.path}, line {line}"

    def _tokenize_rows(self, lines: Sequence[tuple[int, bytes]]) -> list[Row]:
        """Tokenize all rows, or take their tokens from the cache of an earlier run."""
        options = {"assistant_only": self._assistant_only}
        cache = TokenCache(self.digest, len(lines), self._codec, options)
        starts = range(0, len(lines), ROWS_AT_ONCE)
        rows = [row for i in starts for row in self._tokenize_part(lines[i : i + ROWS_AT_ONCE], cache)]
        cache.save()
        return rows

    def _tokenize_part(self, lines: Sequence[tuple[int, bytes]], cache: TokenCache) -> list[Row]:
        """Tokenize some rows in one call, which is many times faster than row by row."""
        numbered_rows = [(number, self._parse_columns(number, line)) for number, line in lines]
        all_requests = [self._requests_of(number, row) for number, row in numbered_rows]
        ids = cache.get(sum(map(len, all_requests)))
        if ids is None:
            ids = self._tokenize(lines, all_requests)
            cache.add(ids)
        rows, start = list[Row](), 0
        for (number, row), requests in zip(numbered_rows, all_requests, strict=True):
            rows.append(self._make_row(number, row, ids[start : start + len(requests)]))
            start += len(requests)
        return rows

    def _tokenize(
        self, lines: Sequence[tuple[int, bytes]], all_requests: Sequence[list[TokenizeRequest]]
    ) -> list[Ids]:
        try:
            return tokenize(self._codec, [request for requests in all_requests for request in requests])
        except (ConfigError, RecursionError, TypeError, ValueError):
            ids_by_line = (
                self._tokenize_line(n, requests) for (n, _), requests in zip(lines, all_requests, strict=True)
            )
            return [ids for requests in ids_by_line for ids in requests]  # the error names its line

    def _tokenize_line(self, number: int, requests: Sequence[TokenizeRequest]) -> list[Ids]:
        with self._name_errors(number):
            return tokenize(self._codec, requests)

    @contextmanager
    def _name_errors(self, number: int) -> Iterator[None]:
        """Add the line number to errors."""
        try:
            yield
        except (ConfigError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"{self._place(number)}: {error}") from error

    def _parse_columns(self, number: int, line: bytes) -> dict[str, Any]:
        """Parse the columns of a line, which has to be of the same kind as the lines before it."""
        kind, row = read_row(line, self._place(number), number == 1)
        self.kind = self.kind or kind
        if kind != self.kind:
            raise ConfigError(
                f"{self._place(number)} has columns {', '.join(kind)}, and lines before it "
                f"{', '.join(self.kind)}"
            )
        return row

    def _requests_of(self, number: int, row: Mapping[str, Any]) -> list[TokenizeRequest]:
        """Return what is tokenized: answers, the prompt, and an unfinished prompt once more as it is."""
        with self._name_errors(number):
            template_kwargs = template_arguments(row)
            contents = [_full_text(row, name) for name in self._answer_columns(row)]
            is_text = isinstance(contents[0] if contents else row["prompt"], str)
            requests = [
                TokenizeRequest(content, "ended" if is_text else "", template_kwargs) for content in contents
            ]
            if self.kind not in FULL_TEXT_KINDS:
                requests.append(
                    TokenizeRequest(row["prompt"], "text" if is_text else "answer", template_kwargs)
                )
                if not is_text and _is_unfinished(row["prompt"]):
                    requests.append(TokenizeRequest(row["prompt"], "more", template_kwargs))
            if self._assistant_only:
                if is_text:
                    raise ConfigError(f"{SETTING}: these are texts, expected a conversation (messages)")
                requests += turn_requests(self._codec, contents[0], template_kwargs) if contents else []
            return requests

    def _answer_columns(self, row: Mapping[str, Any]) -> list[str]:
        """Return the columns that end with trained tokens."""
        if self.kind in FULL_TEXT_KINDS:
            return list(self.kind)
        return [name for name in ("completion", "chosen", "rejected") if name in row]

    def _make_row(self, number: int, row: Mapping[str, Any], ids: list[Ids]) -> Row:
        """Build a row from the tokens of `_requests_of`."""
        with self._name_errors(number):
            n_answers = len(self._answer_columns(row))
            full_ids, other_ids = ids[:n_answers], ids[n_answers:]
            if self.kind in FULL_TEXT_KINDS:
                prompt = split_answers(full_ids[0][:1], full_ids, None, row)
            else:
                prompt = split_answers(other_ids.pop(0), full_ids, get_answer(row), row)
                if not isinstance(row["prompt"], str) and _is_unfinished(row["prompt"]):
                    # generation continues the open turn, but training starts a new one
                    open_prompt_ids = torch.from_numpy(other_ids.pop(0))
                    prompt = prompt._replace(ids=open_prompt_ids, context_ids=answer_context(prompt))
            if self._assistant_only and prompt.answer_ids is not None:
                mask = torch.from_numpy(
                    assistant_mask(full_ids[0], other_ids)[-len(prompt.answer_ids) :].copy()
                )
                if not mask.any():
                    raise ConfigError(f"{SETTING}: no token of the answer is the assistant's")
                prompt = prompt._replace(loss_mask=mask)
            return Row(number, prompt)


def _full_text(row: Mapping[str, Any], name: str) -> Any:
    """Return an answer with its prompt, or the whole column without a prompt."""
    return row["prompt"] + row[name] if "prompt" in row else row[name]


def _is_unfinished(messages: Messages) -> bool:
    """Return whether a prompt ends with an assistant message, which the answer continues."""
    return bool(messages[-1]["role"] == "assistant")


class DatasetPrompts:
    """The rows of a file, in a new random order in each epoch; some rows are held out.

    Parameters
    ----------
    dataset : rows for training
    held_out : rows for evaluation; None: the rows of `dataset` whose prompt's hash is in the lowest fifth,
        which are then excluded from training
    seed : seed of the run
    codec : codec of the tokens
    """

    def __init__(self, dataset: TextDataset, held_out: TextDataset | None, seed: int, codec: Codec) -> None:
        rows = [row.prompt for row in dataset.rows]
        if held_out is None:
            held_out_flags = [is_held_out(json.dumps(_split_key(row), sort_keys=True)) for row in rows]
            self._held_out = [
                row for row, is_held_row in zip(rows, held_out_flags, strict=True) if is_held_row
            ]
            rows = [row for row, is_held_row in zip(rows, held_out_flags, strict=True) if not is_held_row]
        else:
            self._held_out = [row.prompt for row in held_out.rows]
        if not rows or not self._held_out:
            missing_part = "held out" if rows else "left for training"
            raise ConfigError(
                f"dataset={dataset.path}: of its {len(dataset.rows)} rows none is {missing_part} (a fifth is "
                "held out, by the hash of the prompt); set eval_dataset=FILE"
            )
        self._rows, self._seed, self.codec = rows, seed, codec
        has_own_eval = held_out is not None
        files = {"dataset": dataset.digest, "tokenizer": codec.digest, "whole": has_own_eval}
        self.digests: Mapping[str, Any] = files  # identify the training rows
        self.has_prompts = dataset.kind not in FULL_TEXT_KINDS
        column_sets = [
            text_dataset.columns for text_dataset in (dataset, held_out) if text_dataset is not None
        ]
        self.columns: Collection[str] = frozenset.intersection(*column_sets)
        self._order: tuple[int, NDArray[np.int64]] = -1, np.empty(0, np.int64)

    def training_prompts(self, first: int, count: int) -> list[Prompt]:
        """Return prompts by number; number k is in epoch k // rows, whose order depends on seed and epoch."""
        return [self._prompt_at(k) for k in range(first, first + count)]

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """Return up to `count` held-out prompts from `first` on, in an order that depends on the seed."""
        order = Stream(seed, "held_out").permutation(len(self._held_out))
        return [self._held_out[i] for i in order[first : first + count]]

    def with_rejected(self, prompt: Prompt, number: int) -> Prompt:
        """Return the prompt unchanged."""
        return prompt

    def _prompt_at(self, number: int) -> Prompt:
        epoch, position = divmod(number, len(self._rows))
        if self._order[0] != epoch:
            self._order = epoch, Stream(self._seed, "order", epoch).permutation(len(self._rows))
        return self._rows[int(self._order[1][position])]


def _split_key(prompt: Prompt) -> Any:
    """Return the key that decides the split: prompt, messages up to the last answer, or the whole text."""
    columns = prompt.columns or {}
    key = next(columns[name] for name in ("prompt", "messages", "text") if name in columns)
    if "messages" in columns and key[-1]["role"] == "assistant" and len(key) > 1:
        return key[:-1]
    return key
