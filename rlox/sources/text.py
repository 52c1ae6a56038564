"""Sources of text for prompts: generated completions, right answers, or chosen and rejected answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlox.distributed import ProcessGroup
from rlox.errors import CheckpointError, ConfigError, RewardError
from rlox.llm.advantages import weighted_rewards
from rlox.llm.batches import CompletionBatch, GroupedCompletions, PreferencePairs, make_completion_batch
from rlox.llm.completion_rewards import CompletionReward
from rlox.llm.prompts import Prompt, Prompts, answer_context
from rlox.sources.generators import CompletionGenerator
from rlox.sources.store import NullStore, Store
from rlox.types import Clock, Episode, Progress, Update

__all__ = ["AnswerSource", "GenerationSource", "PairSource", "TextSource", "pairs_of", "right_answers"]

B = TypeVar("B")


class TextSource(ABC, Generic[B]):
    """Batches of prompts; the clock counts the prompts so far, so a checkpoint stores no other position.

    Parameters
    ----------
    prompts : the dataset or task; None until some are given
    batch_size : prompts of a batch; the last batch of a run may have fewer
    seed : seed of the run
    group : processes that learn together; each learns from its share of a batch's prompts
    parts : number of optimizer steps, among which a batch is split; each process has a share of each part
    """

    resume_grade: str = "exact"
    stored_bytes = 0

    def __init__(
        self, prompts: Prompts | None, batch_size: int, seed: int, group: ProcessGroup, parts: int = 1
    ) -> None:
        self.prompts, self.batch_size, self.seed = prompts, batch_size, seed
        self.group, self._parts = group, parts
        self._last_batch: Any = None  # for inspection if a number is not finite
        # set by a façade to learn from a batch that the user gives, instead of the prompts
        self.next_override: Callable[[Clock], tuple[B, Progress]] | None = None

    def next(self, clock: Clock) -> tuple[B, Progress]:
        """Return the batch of the next prompts."""
        batch, progress = (self.next_override or self._next_batch)(clock)
        self._last_batch = batch
        return batch, progress

    def _next_batch(self, clock: Clock) -> tuple[B, Progress]:
        if self.prompts is None:
            raise ConfigError(
                "no prompts to learn from: give train() some, or a task (task=..., one of rlox.llm.TASKS)"
            )
        count = min(self.batch_size, clock.units_left or self.batch_size)
        return self.batch_of(self.prompts.training_prompts(clock.samples, count), clock)

    def batch_of(self, prompts: list[Prompt], clock: Clock) -> tuple[B, Progress]:
        """Make the batch of these prompts; the first has the number `clock.samples` in the run."""
        local_rows = self.local_rows(len(prompts))
        return self._batch([prompts[i] for i in local_rows], local_rows, clock)

    def local_rows(self, count: int) -> NDArray[np.int64]:
        """Return which of `count` prompts this process learns from."""
        return self.group.rows(count, self._parts)

    @abstractmethod
    def _batch(
        self, prompts: list[Prompt], local_rows: NDArray[np.int64], clock: Clock
    ) -> tuple[B, Progress]:
        """Make this process's batch of the prompts numbered `clock.samples + local_rows` in the run."""

    def feedback(self, update: Update) -> None:
        """Ignore the update: the model that learns also generates."""

    def save(self, store: Store) -> dict[str, Any]:
        """Return the digests of the prompt files; the clock has everything else."""
        return {} if self.prompts is None else dict(self.prompts.digests)

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Check that the prompts are unchanged, else `CheckpointError`; there is no other state."""
        digests = {} if self.prompts is None else dict(self.prompts.digests)
        is_evaluation = isinstance(store, NullStore) and digests.get(
            "whole"
        )  # a separate evaluation dataset: only the tokenizer must match
        names = ("tokenizer",) if is_evaluation else ("dataset", "tokenizer", "whole")
        if digests and any(state.get(name) != digests.get(name) for name in names):
            raise CheckpointError(
                "its dataset or tokenizer has changed (another SHA-256), or eval_dataset was added or removed"
                ": restore them, or start a new run with init_from"
            )

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Return an empty string: a resumed run continues exactly."""
        return ""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return tokens and mask of the last batch's completions, `[B, T]`; of pairs, the chosen ones."""
        if self._last_batch is None:
            return {}
        answers: CompletionBatch = self._last_batch.completions
        return {"tokens": answers.tokens.numpy(), "mask": answers.mask.numpy()}

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class GenerationSource(TextSource[GroupedCompletions]):
    """Groups of generated completions of each prompt.

    If the model in this process generates them, they depend only on weights, seed and prompt number.

    Parameters
    ----------
    generator : completes prompts
    reward_function : scores completions
    weights : weights of the reward functions; None: 1 each
    group_size : completions of each prompt
    """

    def __init__(
        self,
        prompts: Prompts | None,
        batch_size: int,
        seed: int,
        generator: CompletionGenerator,
        reward_function: CompletionReward | None,
        weights: Sequence[float] | None,
        group_size: int,
        group: ProcessGroup,
        parts: int,
    ) -> None:
        super().__init__(prompts, batch_size, seed, group, parts)
        self._generator = generator
        self.resume_grade = "exact" if generator.is_exact else "episode_start"
        self._reward_function, self._weights, self._group_size = reward_function, weights, group_size

    def _batch(
        self, prompts: list[Prompt], local_rows: NDArray[np.int64], clock: Clock
    ) -> tuple[GroupedCompletions, Progress]:
        size, first = self._group_size, clock.samples
        rows = [prompt for prompt in prompts for _ in range(size)]
        numbers = (first + local_rows).tolist()
        generated_tokens = self._generator([prompt.ids for prompt in prompts], size, numbers, clock.updates)
        rewards = np.full((len(rows), 1), np.nan)
        if self._reward_function is not None:
            rewards = self._reward_function(rows, generated_tokens)
        local_stats = np.column_stack(
            [rewards, generated_tokens.lengths.numpy(), generated_tokens.has_ended.numpy()]
        )
        all_stats = self.group.gather_rows(local_stats.reshape(len(prompts), -1), self._parts)
        rewards, lengths, has_ended = np.split(all_stats.reshape(-1, local_stats.shape[1]), [-2, -1], 1)
        row_indices = (local_rows[:, None] * size + np.arange(size)).ravel()
        batch = GroupedCompletions(
            rows, generated_tokens, rewards, lengths[:, 0], has_ended[:, 0], row_indices, size
        )
        if self._reward_function is None:
            return batch, Progress()
        if np.isnan(rewards).all():
            raise RewardError(
                f"none of the {len(rewards)} completions of a batch got a reward, expected a number for one "
                "at least"
            )
        episodes = tuple(
            Episode(first + i // size + 1, i % size, float(reward), int(lengths[i, 0]))
            for i, reward in enumerate(weighted_rewards(rewards, self._weights))
            if not np.isnan(reward)
        )
        return batch, Progress(episodes=episodes)

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Say that a generation server's random state is not saved; empty for a local generator."""
        return (
            ""
            if self._generator.is_exact
            else "completions come from a server, whose random state is not saved"
        )

    def close(self) -> None:
        """Release the generator's resources."""
        self._generator.close()


class AnswerSource(TextSource[CompletionBatch]):
    """Prompts with their right answers, each with its end token."""

    def _batch(
        self, prompts: list[Prompt], local_rows: NDArray[np.int64], clock: Clock
    ) -> tuple[CompletionBatch, Progress]:
        return right_answers(prompts), Progress()


class PairSource(TextSource[PreferencePairs]):
    """Prompts, each with a chosen and a rejected answer."""

    def _batch(
        self, prompts: list[Prompt], local_rows: NDArray[np.int64], clock: Clock
    ) -> tuple[PreferencePairs, Progress]:
        assert self.prompts is not None
        return pairs_of(self.prompts, prompts, clock.samples + local_rows), Progress()


def right_answers(prompts: list[Prompt]) -> CompletionBatch:
    """Return the right answers of prompts, each with its end token; `ConfigError` if one is missing."""
    loss_masks = [p.loss_mask for p in prompts if p.loss_mask is not None]
    return make_completion_batch(
        [answer_context(p) for p in prompts], [_answer_tokens(p) for p in prompts], loss_masks or None
    )


def pairs_of(source_prompts: Prompts, prompts: list[Prompt], numbers: NDArray[np.int64]) -> PreferencePairs:
    """Return the chosen and rejected answers of prompts, which have these `numbers` in a run."""
    paired_prompts = [
        source_prompts.with_rejected(p, k) for p, k in zip(prompts, numbers.tolist(), strict=True)
    ]
    rejected_ids = [prompt.rejected_ids for prompt in paired_prompts if prompt.rejected_ids is not None]
    if len(rejected_ids) < len(paired_prompts):
        raise ConfigError(
            "these prompts have no pairs to learn: expected columns chosen and rejected (in Python "
            "train_step() takes completions)"
        )
    return PreferencePairs(
        right_answers(paired_prompts),
        make_completion_batch([answer_context(p) for p in paired_prompts], rejected_ids),
        len(prompts),
    )


def _answer_tokens(prompt: Prompt) -> Tensor:
    if prompt.answer_ids is None:
        raise ConfigError(
            "these prompts have no answers to learn: expected a column text, messages, completion or chosen "
            "(in Python train_step() takes completions)"
        )
    return prompt.answer_ids
