"""OnlineDPO: DPO on pairs that the model generates itself (Guo et al. 2024, arXiv:2402.04792)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlox.algorithms.dpo import DPOLearner
from rlox.algorithms.text.components import TextContext, build_text, build_text_context
from rlox.algorithms.text.facade import GenerationAlgorithm
from rlox.algorithms.text.generation import make_generation_source
from rlox.algorithms.text.learner import completion_metrics
from rlox.algorithms.text.objects import PREFERENCE_OBJECT, PreferenceFunction
from rlox.configs import OnlineDPOConfig, RunConfig
from rlox.configs.params import display_name, spec_arguments
from rlox.configs.secrets import unwrap
from rlox.errors import RewardError
from rlox.importing import load
from rlox.llm.advantages import weighted_rewards
from rlox.llm.batches import GroupedCompletions, PreferencePairs
from rlox.llm.completion_rewards import call_user_function, parse_number
from rlox.llm.reward_arguments import bind_arguments, require_takes_pairs
from rlox.training.components import BuildContext, RunComponents
from rlox.types import Clock, Update

__all__ = ["CompletionPair", "OnlineDPO", "OnlineDPOLearner"]

NO_PREFERENCE = -1


class CompletionPair(tuple[Tensor, Tensor]):
    """Two completions, as token ids up to their ends, and their `prompt` `[P]`."""

    prompt: Tensor

    def __new__(cls, first: Tensor, second: Tensor, prompt: Tensor) -> CompletionPair:
        """Make the pair of these completions and set its `prompt`."""
        pair = super().__new__(cls, (first, second))
        pair.prompt = prompt
        return pair


class OnlineDPOLearner(DPOLearner):
    """A model that takes one optimizer step per batch, on the pairs with a preferred completion."""

    def __init__(
        self, text: TextContext, config: OnlineDPOConfig, preference: PreferenceFunction | None
    ) -> None:
        super().__init__(text, config)
        self._preference = preference

    def update(self, batch: GroupedCompletions, clock: Clock) -> Update:  # type: ignore[override]  # takes completions
        """Take one step on the pairs in which one completion is preferred."""
        preferred = self._preferred_indices(batch)
        decided_pairs = np.flatnonzero(preferred != NO_PREFERENCE)
        chosen_rows = 2 * decided_pairs + preferred[decided_pairs]
        chosen, rejected = (
            batch.completions.select(rows) for rows in (chosen_rows, 4 * decided_pairs + 1 - chosen_rows)
        )
        update = super().update(PreferencePairs(chosen, rejected, len(preferred)), clock)
        decided_fraction = self.group.gather_rows(np.array([[len(decided_pairs) / len(preferred)]])).mean()
        metrics = {"reward/told_apart": float(decided_fraction), **completion_metrics(batch)}
        return Update({**update.metrics, **metrics}, update.count, update.samples)

    def _preferred_indices(self, batch: GroupedCompletions) -> Any:
        """Return the preferred index of each pair, 0 or 1, or -1 for neither."""
        if self._preference is None:
            local_rewards = batch.rewards[batch.local_rows]
            pair_rewards = weighted_rewards(local_rewards, self.text.weights).reshape(-1, 2)
            preferred = np.where(
                pair_rewards[:, 0] == pair_rewards[:, 1], NO_PREFERENCE, pair_rewards.argmax(1)
            )
            return np.where(np.isnan(pair_rewards).any(1), NO_PREFERENCE, preferred)
        rows = batch.generated_tokens.token_rows()
        pairs: list[Any] = [
            CompletionPair(rows[i], rows[i + 1], batch.prompts[i].ids.clone()) for i in range(0, len(rows), 2)
        ]
        return _call_preference(self._preference, pairs)


def _call_preference(preference: PreferenceFunction, pairs: list[Any]) -> Any:
    """Call the user's preference function on pairs; returns int64 `[pairs]`."""
    expected = "0 or 1 (the index of the better completion) or -1 (neither)"
    answers = call_user_function("preference_fn", lambda: preference(pairs), f"{expected}, for each pair")
    if len(answers) != len(pairs):
        raise RewardError(f"preference_fn returned {len(answers)} numbers for {len(pairs)} pairs")
    for answer in answers:
        # it is ambiguous whether True means that the first is better, or the second
        is_bool = isinstance(answer, (bool, np.bool_)) or (
            isinstance(answer, Tensor) and answer.dtype == torch.bool
        )
        if is_bool or parse_number(answer) not in (NO_PREFERENCE, 0, 1):
            raise RewardError(f"preference_fn returned {answer!r:.80}, expected {expected}")
    return np.array([int(answer) for answer in answers], np.int64)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an OnlineDPO run, which learns from pairs of its model's completions."""
    algo, text = cast(OnlineDPOConfig, config.algo), build_text_context(config, context)
    preference: Any = text.objects.preference
    if preference is None and algo.preference is not None:
        key, spec = "algo.preference", algo.preference
        arguments = unwrap(spec_arguments(spec))
        preference = bind_arguments(display_name(spec), load(spec, key), arguments, key)
        require_takes_pairs(preference, f"{key}={display_name(spec)}")
    source = make_generation_source(
        config, text, 2, is_rewarded=preference is None or text.reward_function is not None
    )
    return build_text(text, source, OnlineDPOLearner(text, algo, preference))


class OnlineDPO(GenerationAlgorithm):
    """Online direct preference optimization of a language model."""

    name = "online_dpo"
    object_arguments = GenerationAlgorithm.object_arguments | PREFERENCE_OBJECT
    make = staticmethod(make)
    positional = (
        "model",
        "ref_model",
        "preference_fn",
        "beta",
        "learning_rate",
        "max_new_tokens",
        "callbacks",
        "logger",
    )
