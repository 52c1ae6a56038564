"""Sources of text: completions that are written for prompts, right answers, and pairs of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox._core import Stream
from rlox.distributed import Group
from rlox.errors import ConfigError
from rlox.llm.batches import Answers, Pairs, Tokens, answers_of
from rlox.llm.judges import Judge
from rlox.llm.prompts import Prompt, Prompts
from rlox.llm.rewards import weighted_rewards
from rlox.llm.tasks import Task
from rlox.sources.store import Store
from rlox.sources.writers import Writer
from rlox.types import Clock, Episode, Progress, Update

__all__ = ["AnswerSource", "PairSource", "TextSource", "WritingSource", "pairs_of"]

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
        """Nothing that the clock does not have."""
        return {}

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Nothing to go on from."""

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
            raise ConfigError(
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


class _TaskSource(TextSource[B]):
    """What a task says of its own prompts."""

    def __init__(
        self,
        prompts: Prompts | None,
        batch_size: int,
        seed: int,
        task: Task | None,
        group: Group,
    ) -> None:
        super().__init__(prompts, batch_size, seed, group)
        self._task = task


class AnswerSource(_TaskSource[Answers]):
    """Prompts of a task with their right answers, each with its end."""

    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[Answers, Progress]:
        batch = answers_of([p.ids for p in prompts], [self._right(p) for p in prompts])
        return batch, Progress()

    def _right(self, prompt: Prompt) -> Tensor:
        if self._task is None or prompt.example is None:
            raise ConfigError(
                "these prompts have no answers to learn: give train_step() completions"
            )
        answer = self._task.characters.encode(prompt.example.answer, end=True)
        return torch.from_numpy(answer)


class PairSource(_TaskSource[Pairs]):
    """Prompts of a task, each with its right answer and a wrong one that is near it."""

    def _batch(
        self, prompts: list[Prompt], own: NDArray[np.int64], clock: Clock
    ) -> tuple[Pairs, Progress]:
        batch = pairs_of(self._task, prompts, self.seed, clock.samples + own)
        return batch, Progress()


def pairs_of(
    task: Task | None, prompts: list[Prompt], seed: int, numbers: NDArray[np.int64]
) -> Pairs:
    """Right and wrong answers; which wrong one a prompt has is a function of the seed and its number."""
    ids = [prompt.ids for prompt in prompts]
    right, wrong = list[Tensor](), list[Tensor]()
    for k, prompt in zip(numbers.tolist(), prompts, strict=True):
        if task is None or prompt.example is None:
            raise ConfigError("these prompts have no pairs to learn: give train_step() completions")
        other = task.rejected(prompt.example, Stream(seed, "rejected", k).uniform(2))
        for rows, answer in ((right, prompt.example.answer), (wrong, other)):
            rows.append(torch.from_numpy(task.characters.encode(answer, end=True)))
    return Pairs(answers_of(ids, right), answers_of(ids, wrong), len(prompts))
