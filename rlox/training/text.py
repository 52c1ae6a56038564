"""A language model as runs use it: what holds its weights, and what it is worth on prompts held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.errors import ConfigError, RewardError
from rlox.llm.decoding import Completed, Sampling
from rlox.llm.judges import Judge
from rlox.llm.models import TextModel
from rlox.llm.pretrained import room_of
from rlox.llm.prompts import Prompt, Prompts
from rlox.llm.rewards import weighted_rewards
from rlox.sources.writers import written_with
from rlox.training.evaluate import Evaluation

__all__ = ["Score", "ScoreEvaluator", "TextActor", "TextEvaluator", "best_rows", "written_by"]

# Of prompts what their answers are worth, and the tokens of each.
Score = Callable[[list[Prompt]], tuple[NDArray[np.float64], list[int]]]

ROWS = 256  # of an evaluation, that are written side by side
SHOWN = 16  # of an evaluation, to be looked at


@dataclass(frozen=True)
class TextActor:
    """The model whose weights a run has; it sees tokens, not observations."""

    model: TextModel
    actions = None
    normalizer = None

    @property
    def policy(self) -> nn.Module:
        """The model as torch has it."""
        return self.model.module

    @property
    def module(self) -> Any:
        """The same."""
        return self.model.module

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.model.device

    def weights(self) -> dict[str, Any]:
        """What is learned, by name."""
        return self.model.learned.weights()


@dataclass(frozen=True)
class TextEvaluator:
    """Mean reward of completions of prompts that nothing is learned from."""

    model: TextModel
    prompts: Prompts
    judge: Judge
    weights: tuple[float, ...] | None
    how: Sampling  # of completions to learn from

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Prompt i of a task is drawn by `seed + i`, those of a file are in an order by `seed`, each once.

        Completions have the best tokens, or those `generator` draws. A return is the reward of one, a length
        its tokens; one without a reward is left out.
        """
        _unseen(video, render)
        return self._evaluated(episodes, seed, 1, generator, stopped)

    def best_of(self, n: int, episodes: int, seed: int, generator: torch.Generator) -> Evaluation:
        """The same of the best by reward of `n` completions of each prompt, which `generator` draws."""
        return self._evaluated(episodes, seed, n, generator)

    def _evaluated(
        self,
        episodes: int,
        seed: int,
        n: int,
        generator: torch.Generator | None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        rewards, lengths, shown = list[float](), list[int](), list[dict[str, Any]]()
        each = max(1, ROWS // n)
        for first in range(0, episodes, each):
            if stopped():
                break
            prompts = self.prompts.held_out(seed, first, min(each, episodes - first))
            if not prompts:
                break
            many = [prompt for prompt in prompts for _ in range(n)]
            written = written_by(self.model, [p.ids for p in many], self.how, generator)
            worth = weighted_rewards(self.judge(many, written), self.weights)
            best = best_rows(worth, n)
            rewards += worth[best].tolist()
            lengths += written.lengths[best].tolist()
            for row in best[: SHOWN - len(shown)]:
                shown.append(_shown(self.prompts, many[row], written.tokens[row], worth[row]))
        if not rewards and not stopped():
            raise RewardError(
                f"no completion of {episodes} held-out prompts got a reward, expected one at least"
            )
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(shown))


@dataclass(frozen=True)
class ScoreEvaluator:
    """What the answers of prompts that nothing is learned from are worth to a learner: no text is written.

    Attributes
    ----------
    score : of the learner
    rows : prompts that are asked for side by side
    """

    model: TextModel
    prompts: Prompts
    score: Score
    rows: int
    how: Sampling

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """As a `TextEvaluator`; nothing is drawn but what the samples show."""
        _unseen(video, render)
        rewards, lengths, shown = list[float](), list[int](), list[dict[str, Any]]()
        for first in range(0, episodes, self.rows):
            prompts = self.prompts.held_out(seed, first, min(self.rows, episodes - first))
            if stopped() or not prompts:
                break
            worth, tokens = self.score(prompts)
            rewards += worth.tolist()
            lengths += tokens
            asked = enumerate(prompts if self.prompts.prompted else [])
            some = [i for i, p in asked if self._fits(p)][: SHOWN - len(shown)]
            if some:
                ids = [prompts[i].ids for i in some]
                written = written_by(self.model, ids, self.how, generator)
                for i, row in zip(some, written.tokens, strict=True):
                    shown.append(_shown(self.prompts, prompts[i], row, worth[i]))
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(shown))

    def _fits(self, prompt: Prompt) -> bool:
        """Whether the model has positions for a completion of it."""
        room = room_of(self.model.module)
        return room is None or len(prompt.ids) + self.how.max_new_tokens <= room


def _unseen(video: Path | None, render: bool) -> None:
    if video is not None or render:
        raise ConfigError("text is not filmed or shown: leave video and render out")


def _shown(prompts: Prompts, prompt: Prompt, tokens: Tensor, reward: float) -> dict[str, Any]:
    said = prompts.text.decode(prompt.ids.numpy(), whole=True)
    answer = prompts.text.decode(tokens.numpy())
    return {"prompt": said, "completion": answer, "reward": float(reward)}


def written_by(
    model: TextModel, prompts: list[Tensor], how: Sampling, generator: torch.Generator | None
) -> Completed:
    """A completion of each prompt: of the best tokens, or of those that `generator` draws."""
    if generator is None:
        best = replace(how, temperature=0.0, top_k=None, top_p=None, min_p=None)
        return written_with(model, prompts, best, None)
    shape = (len(prompts), how.max_new_tokens)
    uniforms = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
    return written_with(model, prompts, how, uniforms)


def best_rows(worth: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Of each `n` rewards the row of the greatest, the first of equals; none of those that are all NaN."""
    several = worth.reshape(-1, n)
    there = np.flatnonzero(~np.isnan(several).all(1))
    found: NDArray[np.int64] = n * there + np.nanargmax(several[there], 1)
    return found
