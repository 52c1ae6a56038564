"""Language models in runs: the actor that holds the weights, and evaluation on held-out prompts."""

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
from rlox.llm.advantages import weighted_rewards
from rlox.llm.completion_rewards import CompletionReward
from rlox.llm.decoding import GeneratedTokens, Sampling
from rlox.llm.models import TextModel
from rlox.llm.prompts import Prompt, Prompts
from rlox.llm.transformers_files import max_positions_of
from rlox.sources.generators import generate_in_batches
from rlox.training.evaluate import Evaluation

__all__ = ["ScoreEvaluator", "ScoreFunction", "TextActor", "TextEvaluator", "best_rows", "generate"]

# Returns the score and the number of tokens of each prompt's answer.
ScoreFunction = Callable[[list[Prompt]], tuple[NDArray[np.float64], list[int]]]

MAX_ROWS = 256  # completions of an evaluation that are generated in parallel
MAX_SAMPLES = 16  # sample texts of an evaluation


@dataclass(frozen=True)
class TextActor:
    """The language model of a run; it takes tokens, not observations."""

    model: TextModel
    actions = None
    normalizer = None

    @property
    def policy(self) -> nn.Module:
        """The torch module of the model."""
        return self.model.module

    @property
    def module(self) -> Any:
        """The same as `policy`."""
        return self.model.module

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.device

    def weights(self) -> dict[str, Any]:
        """Return the trainable weights by name."""
        return self.model.trainable.weights()


@dataclass(frozen=True)
class TextEvaluator:
    """Evaluates by the mean reward of completions of held-out prompts."""

    model: TextModel
    prompts: Prompts
    reward_function: CompletionReward
    weights: tuple[float, ...] | None
    sampling: Sampling  # as in training

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Evaluate completions of `episodes` held-out prompts.

        Prompt i of a task is drawn with `seed + i`; the prompts of a file are shuffled by `seed`, each used
        once. Completions use the best tokens, or samples of `generator`. A return is the reward of a
        completion, a length its token count; completions without a reward are left out.
        """
        _require_no_video(video, render)
        return self._evaluate(episodes, seed, 1, generator, is_stopped)

    def best_of(self, n: int, episodes: int, seed: int, generator: torch.Generator) -> Evaluation:
        """Evaluate, for each prompt, the one of `n` sampled completions with the highest reward."""
        return self._evaluate(episodes, seed, n, generator)

    def _evaluate(
        self,
        episodes: int,
        seed: int,
        n: int,
        generator: torch.Generator | None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        rewards, lengths, samples = list[float](), list[int](), list[dict[str, Any]]()
        batch_size = max(1, MAX_ROWS // n)
        for first in range(0, episodes, batch_size):
            if is_stopped():
                break
            prompts = self.prompts.held_out(seed, first, min(batch_size, episodes - first))
            if not prompts:
                break
            repeated_prompts = [prompt for prompt in prompts for _ in range(n)]
            completions = generate(self.model, [p.ids for p in repeated_prompts], self.sampling, generator)
            completion_rewards = weighted_rewards(
                self.reward_function(repeated_prompts, completions), self.weights
            )
            best_indices = best_rows(completion_rewards, n)
            rewards += completion_rewards[best_indices].tolist()
            lengths += completions.lengths[best_indices].tolist()
            for row in best_indices[: MAX_SAMPLES - len(samples)]:
                samples.append(
                    _sample_row(
                        self.prompts, repeated_prompts[row], completions.tokens[row], completion_rewards[row]
                    )
                )
        if not rewards and not is_stopped():
            raise RewardError(
                f"no completion of {episodes} held-out prompts got a reward, expected one at least"
            )
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(samples))


@dataclass(frozen=True)
class ScoreEvaluator:
    """Evaluates by the learner's scores of the answers of held-out prompts, without generating text.

    Attributes
    ----------
    score : the learner's score function
    batch_size : prompts that are scored in parallel
    """

    model: TextModel
    prompts: Prompts
    score: ScoreFunction
    batch_size: int
    sampling: Sampling

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Evaluate like a `TextEvaluator`; text is generated only for samples."""
        _require_no_video(video, render)
        rewards, lengths, samples = list[float](), list[int](), list[dict[str, Any]]()
        for first in range(0, episodes, self.batch_size):
            prompts = self.prompts.held_out(seed, first, min(self.batch_size, episodes - first))
            if is_stopped() or not prompts:
                break
            scores, token_counts = self.score(prompts)
            rewards += scores.tolist()
            lengths += token_counts
            candidates = enumerate(prompts if self.prompts.has_prompts else [])
            indices = [i for i, p in candidates if self._fits(p)][: MAX_SAMPLES - len(samples)]
            if indices:
                ids = [prompts[i].ids for i in indices]
                completions = generate(self.model, ids, self.sampling, generator)
                for i, row in zip(indices, completions.tokens, strict=True):
                    samples.append(_sample_row(self.prompts, prompts[i], row, scores[i]))
        return Evaluation(tuple(rewards), tuple(lengths), seed, tuple(samples))

    def _fits(self, prompt: Prompt) -> bool:
        """Whether the model has enough positions for a completion of the prompt."""
        max_positions = max_positions_of(self.model.module)
        return max_positions is None or len(prompt.ids) + self.sampling.max_new_tokens <= max_positions


def _require_no_video(video: Path | None, render: bool) -> None:
    if video is not None or render:
        raise ConfigError("text is not filmed or shown: leave video and render out")


def _sample_row(prompts: Prompts, prompt: Prompt, tokens: Tensor, reward: float) -> dict[str, Any]:
    prompt_text = prompts.codec.decode(prompt.ids.numpy(), keep_after_eos=True)
    completion_text = prompts.codec.decode(tokens.numpy())
    return {"prompt": prompt_text, "completion": completion_text, "reward": float(reward)}


def generate(
    model: TextModel, prompts: list[Tensor], sampling: Sampling, generator: torch.Generator | None
) -> GeneratedTokens:
    """Generate a completion of each prompt with the best tokens, or with samples of `generator`."""
    if generator is None:
        greedy = replace(sampling, temperature=0.0, top_k=None, top_p=None, min_p=None)
        return generate_in_batches(model, prompts, greedy, None)
    shape = (len(prompts), sampling.max_new_tokens)
    uniforms = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
    return generate_in_batches(model, prompts, sampling, uniforms)


def best_rows(rewards: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Return the row of the highest reward (the first on ties) of each group of `n`; skip all-NaN groups."""
    groups = rewards.reshape(-1, n)
    valid = np.flatnonzero(~np.isnan(groups).all(1))
    rows: NDArray[np.int64] = n * valid + np.nanargmax(groups[valid], 1)
    return rows
