"""Sources of text: completions that are written for prompts, right answers, and pairs of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlox.distributed import Group
from rlox.errors import CheckpointError, ConfigError, RewardError
from rlox.llm.batches import Answers, Pairs, Tokens, answers_of
from rlox.llm.judges import Judge
from rlox.llm.prompts import Prompt, Prompts, learned_after
from rlox.llm.rewards import weighted_rewards
from rlox.sources.store import Nowhere, Store
from rlox.sources.writers import Writer
from rlox.types import Clock, Episode, Progress, Update

__all__ = ["AnswerSource", "PairSource", "TextSource", "WritingSource", "answers_to", "pairs_of"]

B = TypeVar("B")


class TextSource(ABC, Generic[B]):
    """Batches by the number of their first prompt, which the clock has: there is nothing else to save.

    Parameters
    ----------
    prompts : where they come from; None until some are given
    batch_size : prompts of a batch; the last one of a run may have fewer
    seed : of the run
    group : processes that learn together, each from its own prompts of a batch
    parts : steps of the optimizer that a batch is cut into, of which each process has a share
    """

    resume_grade: str = "exact"
    stored_bytes = 0

    def __init__(
        self, prompts: Prompts | None, batch_size: int, seed: int, group: Group, parts: int = 1
    ) -> None:
        self.prompts, self.batch_size, self.seed = prompts, batch_size, seed
        self.group, self._parts = group, parts
        self._last: Any = None  # to be looked into where a number is not finite
        # what is learned from in place of the prompts, while a façade hands it over
        self.handed: Callable[[Clock], tuple[B, Progress]] | None = None

    def next(self, clock: Clock) -> tuple[B, Progress]:
        """The next prompts, and what is to be learned of them."""
        batch, progress = (self.handed or self._following)(clock)
        self._last = batch
        return batch, progress

    def _following(self, clock: Clock) -> tuple[B, Progress]:
        if self.prompts is None:
            raise ConfigError(
                "no prompts to learn from: give train() some, or a task (task=..., one of rlox.llm.TASKS)"
            )
        count = min(self.batch_size, clock.left or self.batch_size)
        return self.batch_of(self.prompts.learned(clock.samples, count), clock)

    def batch_of(self, prompts: list[Prompt], clock: Clock) -> tuple[B, Progress]:
        """What is learned of these prompts, of which the first has the number that the clock says."""
        own = self.own(len(prompts))
        return self._batch([prompts[i] for i in own], own, clock)

    def own(self, count: int) -> NDArray[np.int64]:
        """Which of so many prompts this process learns from."""
        return self.group.rows(count, self._parts)

    @abstractmethod
    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[B, Progress]:
        """What this process learns: of the prompts with the numbers `clock.samples + own` of a run."""

    def feedback(self, update: Update) -> None:
        """The model that learns is the one that writes."""

    def save(self, store: Store) -> dict[str, Any]:
        """Of what file prompts are, if of one; the clock has the rest."""
        return {} if self.prompts is None else dict(self.prompts.digests)

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Nothing to go on from; `CheckpointError` where the prompts are others than they were."""
        here = {} if self.prompts is None else dict(self.prompts.digests)
        played = isinstance(store, Nowhere) and here.get(
            "whole"
        )  # rows to evaluate by are said apart
        names = ("tokenizer",) if played else ("dataset", "tokenizer", "whole")
        if here and any(state.get(name) != here.get(name) for name in names):
            raise CheckpointError(
                "its dataset or tokenizer has changed since (another SHA-256), or eval_dataset came or went: "
                "give the run what it had, or begin another one with init_from"
            )

    def interruption(self, state: Mapping[str, Any]) -> str:
        """Never one."""
        return ""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Tokens and mask of the completions of the last batch (of pairs the chosen), `[B, T]`."""
        if self._last is None:
            return {}
        answers: Answers = self._last.answers
        return {"tokens": answers.tokens.numpy(), "mask": answers.mask.numpy()}

    def close(self) -> None:
        """Nothing to release."""


class WritingSource(TextSource[Tokens]):
    """Groups of completions that a model writes, in this process a function of its weights and their number.

    Parameters
    ----------
    write : who completes prompts
    judge : what completions are worth
    weights : of the functions of the judge; None: 1 each
    group_size : completions of each prompt
    """

    def __init__(
        self,
        prompts: Prompts | None,
        batch_size: int,
        seed: int,
        write: Writer,
        judge: Judge | None,
        weights: Sequence[float] | None,
        group_size: int,
        group: Group,
        parts: int,
    ) -> None:
        super().__init__(prompts, batch_size, seed, group, parts)
        self._write = write
        self.resume_grade = "exact" if write.exact else "episode_start"
        self._judge, self._weights, self._group_size = judge, weights, group_size

    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[Tokens, Progress]:
        size, first = self._group_size, clock.samples
        rows = [prompt for prompt in prompts for _ in range(size)]
        numbers = (first + own).tolist()
        written = self._write([prompt.ids for prompt in prompts], size, numbers, clock.updates)
        rewards = np.full((len(rows), 1), np.nan)
        if self._judge is not None:
            rewards = self._judge(rows, written)
        told = np.column_stack([rewards, written.lengths.numpy(), written.ended.numpy()])
        whole = self.group.gathered(told.reshape(len(prompts), -1), self._parts)
        rewards, lengths, ended = np.split(whole.reshape(-1, told.shape[1]), [-2, -1], 1)
        at = (own[:, None] * size + np.arange(size)).ravel()
        batch = Tokens(rows, written, rewards, lengths[:, 0], ended[:, 0], at, size)
        if self._judge is None:
            return batch, Progress()
        if np.isnan(rewards).all():
            raise RewardError(
                f"none of the {len(rewards)} completions of a batch got a reward, expected a number for one "
                "at least"
            )
        episodes = tuple(
            Episode(first + i // size + 1, i % size, float(worth), int(lengths[i, 0]))
            for i, worth in enumerate(weighted_rewards(rewards, self._weights))
            if not np.isnan(worth)
        )
        return batch, Progress(episodes=episodes)

    def interruption(self, state: Mapping[str, Any]) -> str:
        """Of what a server writes nobody has the state."""
        return "" if self._write.exact else "completions are a server's, which draws on as it is"

    def close(self) -> None:
        """Release what the writer holds."""
        self._write.close()


class AnswerSource(TextSource[Answers]):
    """Prompts with their right answers, each with its end."""

    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[Answers, Progress]:
        return answers_to(prompts), Progress()


class PairSource(TextSource[Pairs]):
    """Prompts, each with an answer that was chosen and one that was rejected."""

    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[Pairs, Progress]:
        assert self.prompts is not None
        return pairs_of(self.prompts, prompts, clock.samples + own), Progress()


def answers_to(prompts: list[Prompt]) -> Answers:
    """The right answers of prompts, each with its end; `ConfigError` where one has none."""
    marks = [p.learned for p in prompts if p.learned is not None]
    return answers_of(
        [learned_after(p) for p in prompts], [_right(p) for p in prompts], marks or None
    )


def pairs_of(where: Prompts, prompts: list[Prompt], numbers: NDArray[np.int64]) -> Pairs:
    """Right and wrong answers of prompts, which have these numbers in a run."""
    both = [where.paired(p, k) for p, k in zip(prompts, numbers.tolist(), strict=True)]
    wrong = [prompt.wrong for prompt in both if prompt.wrong is not None]
    if len(wrong) < len(both):
        raise ConfigError(
            "these prompts have no pairs to learn: expected columns chosen and rejected (in Python "
            "train_step() takes completions)"
        )
    return Pairs(
        answers_to(both), answers_of([learned_after(p) for p in both], wrong), len(prompts)
    )


def _right(prompt: Prompt) -> Tensor:
    if prompt.right is None:
        raise ConfigError(
            "these prompts have no answers to learn: expected a column text, messages, completion or chosen "
            "(in Python train_step() takes completions)"
        )
    return prompt.right
