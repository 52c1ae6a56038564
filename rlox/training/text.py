"""A language model as runs use it: what holds its weights, and what it is worth on prompts held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.llm.decoding import Completed, Sampling, completions
from rlox.llm.judges import Judge
from rlox.llm.models import TextModel
from rlox.llm.prompts import Prompt, TaskPrompts
from rlox.llm.rewards import weighted_rewards
from rlox.training.evaluate import Evaluation

__all__ = ["TextActor", "TextEvaluator", "written_by"]

ROWS = 256  # completions that are written side by side
SHOWN = 16  # of an evaluation, to be looked at


@dataclass(frozen=True)
class TextActor:
    """The model whose weights a run has; it sees tokens, not observations."""

    policy: nn.Module
    device: torch.device | str
    actions = None
    normalizer = None

    @property
    def module(self) -> Any:
        """The model as torch has it."""
        return self.policy


@dataclass(frozen=True)
class TextEvaluator:
    """Mean reward of completions of prompts that nothing is learned from."""

    model: TextModel
    prompts: TaskPrompts
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
        """Prompt i is drawn by `seed + i`; its completion has the best tokens, or those `generator` draws.

        A return is the reward of a completion, a length its tokens.
        """
        if video is not None or render:
            raise ConfigError("text is not filmed or shown: leave video and render out")
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
            prompts = self.prompts.held_out(seed + first, min(each, episodes - first))
            many = [prompt for prompt in prompts for _ in range(n)]
            written = written_by(self.model, [p.ids for p in many], self.how, generator)
            worth = weighted_rewards(self.judge(many, written), self.weights)
            if np.isnan(worth).any():
                at = first + int(np.isnan(worth).argmax()) // n
                raise ConfigError(
                    f"a completion of held-out prompt {at} got no reward, expected a number for each"
                )
            best = n * np.arange(len(prompts)) + worth.reshape(-1, n).argmax(1)
            rewards += worth[best].tolist()
            lengths += written.lengths[best].tolist()
            for row in best[: SHOWN - len(shown)]:
                shown.append(self._shown(many[row], written.tokens[row], float(worth[row])))
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(shown))

    def _shown(self, prompt: Prompt, tokens: Tensor, reward: float) -> dict[str, Any]:
        said, answer = (self.prompts.text.decode(ids.numpy()) for ids in (prompt.ids, tokens))
        return {"prompt": said, "completion": answer, "reward": reward}


def written_by(
    model: TextModel, prompts: list[Tensor], how: Sampling, generator: torch.Generator | None
) -> Completed:
    """A completion of each prompt: of the best tokens, or of those that `generator` draws."""
    prompts = [prompt.to(model.device) for prompt in prompts]
    if generator is None:
        best = replace(how, temperature=0.0, top_k=None, top_p=None, min_p=None)
        return completions(model, prompts, best, None).cpu()
    shape = (len(prompts), how.max_new_tokens)
    uniforms = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
    return completions(model, prompts, how, uniforms).cpu()
