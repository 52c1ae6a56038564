"""OnlineDPO: pairs that the model writes itself (Guo et al. 2024, arXiv:2402.04792)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.dpo import DPOLearner
from rlox.algorithms.text import Preference, Text, text_of, text_parts
from rlox.algorithms.text_facade import Model, Rewarding, WritingAlgorithm
from rlox.algorithms.torch_text import of_completions
from rlox.algorithms.writing import writing_source
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import OnlineDPOConfig, RunConfig
from rlox.configs.code import arguments_of, name_of
from rlox.configs.secrets import revealed
from rlox.errors import RewardError
from rlox.importing import load
from rlox.llm.batches import Pairs, Tokens
from rlox.llm.judges import answered, number
from rlox.llm.reward_arguments import require_pairs, with_arguments
from rlox.llm.rewards import weighted_rewards
from rlox.llm.serving import GenerationServer
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Update

__all__ = ["OnlineDPO", "OnlineDPOLearner", "Pair"]

NEITHER = -1


class Pair(tuple[Tensor, Tensor]):
    """Two completions, token ids up to their ends, and the `prompt` `[P]` that they are of."""

    prompt: Tensor

    def __new__(cls, first: Tensor, second: Tensor, prompt: Tensor) -> Pair:
        """Of these."""
        made = super().__new__(cls, (first, second))
        made.prompt = prompt
        return made


class OnlineDPOLearner(DPOLearner):
    """A model, and a step of each batch of pairs of which one is better."""

    def __init__(self, text: Text, config: OnlineDPOConfig, preference: Preference | None) -> None:
        super().__init__(text, config)
        self._preference = preference

    def update(self, batch: Tokens, clock: Clock) -> Update:  # type: ignore[override]  # written here
        """One step on the pairs of which one completion is better than the other."""
        better = self._better(batch)
        told = np.flatnonzero(better != NEITHER)
        first = 2 * told + better[told]
        chosen, rejected = (batch.answers.rows(at) for at in (first, 4 * told + 1 - first))
        update = super().update(Pairs(chosen, rejected, len(better)), clock)
        apart = self.group.gathered(np.array([[len(told) / len(better)]])).mean()
        share = {"reward/told_apart": float(apart), **of_completions(batch)}
        return Update({**update.metrics, **share}, update.count, update.samples)

    def _better(self, batch: Tokens) -> Any:
        """0 or 1 of each pair, -1 of neither."""
        if self._preference is None:
            own = batch.rewards[batch.own]
            worth = weighted_rewards(own, self.text.weights).reshape(-1, 2)
            found = np.where(worth[:, 0] == worth[:, 1], NEITHER, worth.argmax(1))
            return np.where(np.isnan(worth).any(1), NEITHER, found)
        rows = batch.written.rows()
        pairs: list[Any] = [
            Pair(rows[i], rows[i + 1], batch.prompts[i].ids.clone()) for i in range(0, len(rows), 2)
        ]
        return _answered(self._preference, pairs)


def _answered(preference: Preference, pairs: list[Any]) -> Any:
    """What the user's function says of pairs, int64 `[pairs]`."""
    expected = "0 or 1, which of the two is better, or -1"
    said = answered("preference_fn", lambda: preference(pairs), f"{expected}, for each pair")
    if len(said) != len(pairs):
        raise RewardError(f"preference_fn returned {len(said)} numbers for {len(pairs)} pairs")
    for which in said:
        # nobody knows whether a comparison means that the first is better, or the second
        truth = isinstance(which, (bool, np.bool_)) or (
            isinstance(which, Tensor) and which.dtype == torch.bool
        )
        if truth or number(which) not in (NEITHER, 0, 1):
            raise RewardError(f"preference_fn returned {which!r:.80}, expected {expected}")
    return np.array([int(which) for which in said], np.int64)


def make(config: RunConfig, tools: Tools) -> Parts:
    """OnlineDPO's learner on pairs that its model writes."""
    algo, text = cast(OnlineDPOConfig, config.algo), text_of(config, tools)
    preference: Any = text.given.preference
    if preference is None and algo.preference is not None:
        key, spec = "algo.preference", algo.preference
        more = revealed(arguments_of(spec))
        preference = with_arguments(name_of(spec), load(spec, key), more, key)
        require_pairs(preference, f"{key}={name_of(spec)}")
    source = writing_source(config, text, 2, judged=preference is None or text.judge is not None)
    return text_parts(text, source, OnlineDPOLearner(text, algo, preference))


class OnlineDPO(WritingAlgorithm):
    """Online direct preference optimization of a language model.

    Parameters
    ----------
    model, task : as of `GRPO`
    ref_model : what the model is held to; None: the model as it begins
    preference_fn : `(pairs) -> list[int]`: which of each `(first, second)` completion is better, 0 or 1, or
        -1: neither; `pair.prompt` is what they are of. None: the one with the greater reward
    beta : how much leaving the reference costs
    learning_rate : of Adam
    max_new_tokens : of a completion
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    reward_fn : as of `GRPO`
    server : that writes completions in the model's place, given the weights as they change; by its kind it
        is at `server_url`
    seed : keys every random stream of the run
    **config_kwargs : any field of `OnlineDPOConfig`, `device`, or paths: `dataset` (not `task`),
        `eval_dataset`, `tokenizer`; unknown names are errors
    """

    name = "online_dpo"
    objects = ("ref_model", "preference_fn", "server")
    make = staticmethod(make)

    def __init__(
        self,
        model: Model = None,
        ref_model: nn.Module | None = None,
        preference_fn: Preference | None = None,
        beta: float = 0.1,
        learning_rate: float = 1e-5,
        max_new_tokens: int | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        reward_fn: Rewarding = None,
        task: str | None = None,
        server: GenerationServer | str | None = None,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "beta": beta,
            "learning_rate": learning_rate,
            "max_new_tokens": max_new_tokens,
            **config_kwargs,
        }
        objects = (ref_model, reward_fn, preference_fn)
        self._begin(model, task, seed, options, objects, logger, callbacks, server)
