"""Tests that gradients of the parts of a batch add up to the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.tiny_lm import ANSWERS, GENERATING, PROMPTS, TinyLM, low_token_reward, step
from torch import Tensor

from rlox.algorithms import DPO, GRPO, RLOO, SFT, OnlineDPO
from rlox.errors import ConfigError
from rlox.llm.prompts import FixedPrompts

LOSSES = ("grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo")
CASES: dict[str, Callable[..., Any]] = {
    **{
        loss: lambda loss=loss, **more: GRPO(
            TinyLM(),
            TinyLM(1),
            low_token_reward,
            loss_type=loss,
            clip_eps=0.01,
            n_epochs=2,
            **GENERATING,
            **more,
        )
        for loss in LOSSES
    },
    "grpo in one step": lambda **more: GRPO(TinyLM(), TinyLM(1), low_token_reward, **GENERATING, **more),
    "grpo in several steps": lambda **more: GRPO(
        TinyLM(), None, low_token_reward, minibatches=3, mask_truncated=True, **GENERATING, **more
    ),
    "rloo": lambda **more: RLOO(TinyLM(), TinyLM(1), low_token_reward, **GENERATING, **more),
    "rloo in several steps": lambda **more: RLOO(
        TinyLM(), None, low_token_reward, minibatches=2, **GENERATING, **more
    ),
    "online_dpo": lambda **more: OnlineDPO(
        TinyLM(), TinyLM(1), reward_fn=low_token_reward, **GENERATING, **more
    ),
    "dpo": lambda **more: DPO(TinyLM(), TinyLM(1), learning_rate=0.02, **more),
    "ipo": lambda **more: DPO(TinyLM(), TinyLM(1), learning_rate=0.02, loss_type="ipo", **more),
    "sft": lambda **more: SFT(TinyLM(), learning_rate=0.02, **more),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_parts_add_up_to_that_of_the_whole_batch(case: str) -> None:
    whole = CASES[case]()
    told = step(whole)
    expected = whole.learner.optimizer.gradient.clone()
    assert float(expected.norm()) > 1e-3
    for parts in (2, 3, 100):
        cut = CASES[case](accumulate=parts)
        found = step(cut)
        apart = cut.learner.optimizer.gradient - expected
        assert float(apart.norm() / expected.norm()) < 1e-6
        assert torch.allclose(whole.policy.table, cut.policy.table, atol=1e-6)
        assert found.keys() == told.keys()
        for name, value in told.items():
            assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-6, nan_ok=True), name


def test_a_step_of_parts_sees_no_more_rows_at_once_than_a_part_has() -> None:
    seen: list[int] = []

    class Watched(TinyLM):
        def forward(self, ids: Tensor) -> Tensor:
            seen.append(len(ids))
            return super().forward(ids)

    sft = SFT(Watched(), accumulate=2)
    seen.clear()  # forget the calls of the causality check
    sft.train_step(PROMPTS, ANSWERS)
    assert seen == [2, 2]
    grpo = GRPO(Watched(), None, low_token_reward, accumulate=4, minibatches=2, group_size=4, **GENERATING)
    grpo.train_step(PROMPTS)
    seen.clear()
    batch, _ = grpo.source.batch_of(FixedPrompts(PROMPTS).training_prompts(0, 4), grpo.clock)
    seen.clear()
    grpo.learner.update(batch, grpo.clock)
    assert max(seen) == 4


def test_parts_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="accumulate=0: expected a value in"):
        SFT(TinyLM(), accumulate=0)
