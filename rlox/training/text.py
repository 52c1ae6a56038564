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
from rlox.llm.prompts import TaskPrompts
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
        rewards, lengths, shown = list[float](), list[int](), list[dict[str, Any]]()
        for first in range(0, episodes, ROWS):
            if stopped():
                break
            count = min(ROWS, episodes - first)
            prompts = self.prompts.held_out(seed + first, count)
            rows = [prompt.ids for prompt in prompts]
            written = written_by(self.model, rows, self.how, generator)
            worth = weighted_rewards(self.judge(prompts, written), self.weights)
            if np.isnan(worth).any():
                at = first + int(np.isnan(worth).argmax())
                raise ConfigError(
                    f"the completion of held-out prompt {at} got no reward, expected a number for each"
                )
            rewards += worth.tolist()
            lengths += written.lengths.tolist()
            told = zip(prompts[: SHOWN - len(shown)], written.tokens, worth.tolist(), strict=False)
            for prompt, tokens, reward in told:
                texts = (self.prompts.text.decode(ids.numpy()) for ids in (prompt.ids, tokens))
                shown.append(
                    dict(zip(("prompt", "completion"), texts, strict=True)) | {"reward": reward}
                )
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(shown))


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
