"""Prompts by number: prompt k of a run is a function of the seed and k."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox._core import Stream
from rlox.errors import ConfigError, ShapeError
from rlox.llm.codecs import CharacterCodec, Codec
from rlox.llm.tasks import Example, Task
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = [
    "FixedPrompts",
    "Prompt",
    "Prompts",
    "TaskPrompts",
    "answer_context",
    "common_prefix_length",
    "parse_completions",
    "parse_token_rows",
    "split_answers",
]


class Prompt(NamedTuple):
    """The tokens of a prompt, with its answers and columns."""

    ids: Tensor  # int64 [P], to be completed
    answer: str | None = None  # the correct answer as text
    answer_ids: Tensor | None = None  # the answer for training, with EOS, int64 [A]
    rejected_ids: Tensor | None = None  # a rejected answer
    # the tokens before the answers, if an answer changes how the end of the prompt is tokenized
    context_ids: Tensor | None = None
    columns: Mapping[str, Any] | None = None  # columns that reward functions may take by name
    loss_mask: Tensor | None = None  # bool [A], tokens of `answer_ids` that count in the loss; None: all


def answer_context(prompt: Prompt) -> Tensor:
    """Return the tokens before the answers."""
    return prompt.ids if prompt.context_ids is None else prompt.context_ids


def split_answers(
    ids: NDArray[np.int64],
    full_ids: Sequence[NDArray[np.int64]],
    answer: str | None,
    columns: Mapping[str, Any],
) -> Prompt:
    """Split `full_ids`, the prompt with each answer, at the first token where one differs from `ids`.

    `ids` are the tokens of the prompt alone. Prompt and answers have at least one token each.
    """
    if not len(ids):
        raise ConfigError("a prompt without a token, expected at least one")
    n_common = max(
        1, min([len(ids), *(common_prefix_length(ids, ids_with_answer) for ids_with_answer in full_ids)])
    )
    if any(len(ids_with_answer) <= n_common for ids_with_answer in full_ids):
        raise ConfigError("an answer without a token, expected at least one")
    answer_ids, rejected_ids, *_ = [
        *(torch.from_numpy(ids_with_answer[n_common:].copy()) for ids_with_answer in full_ids),
        None,
        None,
    ]
    context_ids = torch.from_numpy(ids[:n_common].copy()) if n_common < len(ids) else None
    return Prompt(torch.from_numpy(ids), answer, answer_ids, rejected_ids, context_ids, columns)


def common_prefix_length(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Return the length of the common prefix."""
    width = min(len(first), len(second))
    differences = np.flatnonzero(first[:width] != second[:width])
    return int(differences[0]) if len(differences) else width


class Prompts(Protocol):
    """A source of prompts."""

    codec: Codec  # codec of the tokens
    digests: Mapping[str, Any]  # of dataset and tokenizer; `whole`: True if no row of the dataset is held out
    has_prompts: bool  # whether rows are prompts, not whole texts
    columns: Collection[str]  # columns that reward functions may take by name

    def training_prompts(self, first: int, count: int) -> list[Prompt]:
        """Return training prompts with the numbers from `first` on."""

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """Return held-out prompts with the numbers from `first` on; fewer if there are no more."""

    def with_rejected(self, prompt: Prompt, number: int) -> Prompt:
        """Return the prompt, number `number` of a run, with a rejected answer if there is one."""


class TaskPrompts:
    """Unlimited prompts of a task; training and held-out prompts are disjoint."""

    has_prompts = True
    columns: Collection[str] = Example._fields

    def __init__(self, task: Task, seed: int, codec: Codec | None = None) -> None:
        self._task, self._seed = task, seed
        self.codec: Codec = task.codec if codec is None else codec
        is_character_codec = isinstance(self.codec, CharacterCodec)
        self.digests: Mapping[str, Any] = {} if is_character_codec else {"tokenizer": self.codec.digest}

    def training_prompts(self, first: int, count: int) -> list[Prompt]:
        """Return prompts by number; number k is drawn from the run's stream `prompts` at k."""
        return [self._draw(self._seed, k, "prompts", False) for k in range(first, first + count)]

    def held_out(self, seed: int, first: int, count: int) -> list[Prompt]:
        """Return held-out prompts; number i is drawn with the seed `seed + i`."""
        return [self._draw(seed + first + i, 0, "held_out", True) for i in range(count)]

    def with_rejected(self, prompt: Prompt, number: int) -> Prompt:
        """Add a rejected answer close to the correct one, a function of the seed and the number."""
        if prompt.columns is None:
            return prompt
        example = Example(prompt.columns["prompt"], prompt.columns["answer"])
        rejected_answer = self._task.wrong_answer(example, Stream(self._seed, "rejected", number).uniform(2))
        full_ids = [
            self.codec.encode(example.prompt + answer, with_eos=True)
            for answer in (example.answer, rejected_answer)
        ]
        return split_answers(prompt.ids.numpy(), full_ids, example.answer, prompt.columns)

    def _draw(self, seed: int, number: int, name: str, held_out: bool) -> Prompt:
        (example,) = self._task.examples(1, Stream(seed, name, number), held_out)
        ids, full_ids = self.codec.encode(example.prompt), self.codec.encode("".join(example), with_eos=True)
        return split_answers(ids, [full_ids], example.answer, example._asdict())


class FixedPrompts:
    """Given rows of tokens, repeated in order; the first row has the number `start`."""

    def __init__(self, rows: Tensor | Sequence[Tensor], start: int = 0) -> None:
        self.rows, self._start = parse_token_rows(rows), start

    def training_prompts(self, first: int, count: int) -> list[Prompt]:
        """Return rows in order, at most up to the last one, so that a batch belongs to one pass."""
        position = (first - self._start) % len(self.rows)
        return [Prompt(row) for row in self.rows[position : position + count]]


def parse_token_rows(token_rows: Tensor | Sequence[Tensor], argument_name: str = "prompts") -> list[Tensor]:
    """Copy token ids to the CPU, each row `[P]`; `ShapeError` or `ConfigError` for other values."""
    if any(map(is_masked, token_rows if isinstance(token_rows, list | tuple) else (token_rows,))):
        raise ConfigError(f"{argument_name}: {MASKED_MESSAGE}")
    try:
        rows = [torch.as_tensor(row) for row in token_rows]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{argument_name} {token_rows!r:.60}: expected token ids, [B, P] or rows of different lengths"
        ) from error
    if not rows:
        raise ConfigError(f"no {argument_name}, expected at least one")
    if any(row.dim() != 1 or not len(row) for row in rows):
        shapes = [list(row.shape) for row in rows[:3]]
        raise ShapeError(f"{argument_name} {shapes}: expected token ids [P] each, of one token at least")
    if any(row.is_floating_point() or row.dtype == torch.bool for row in rows):
        raise ConfigError(f"{argument_name} of {rows[0].dtype}: expected whole numbers, token ids")
    # copies, because the caller may write to them before training on all of them
    return [row.to("cpu", torch.int64, copy=True) for row in rows]


def parse_completions(token_rows: Tensor | Sequence[Tensor], eos_ids: Sequence[int]) -> list[Tensor]:
    """As `parse_token_rows`, with each completion cut after its first EOS; the rest is padding."""
    rows, eos_tensor = (
        parse_token_rows(token_rows, "completions"),
        torch.tensor(list(eos_ids), dtype=torch.int64),
    )
    completions = []
    for row in rows:
        eos_positions = torch.isin(row, eos_tensor).nonzero()
        completions.append(row[: int(eos_positions[0]) + 1] if len(eos_positions) else row)
    return completions
