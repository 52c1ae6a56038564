"""Tests that losses of language models, their gradients and advantages equal TRL's on the same batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from parity import text
from rlox.llm import group_advantages, leave_one_out_advantages
from rlox.losses import (
    CompletionLogProbs,
    DPOLoss,
    GRPOLoss,
    importance_weights,
    rloo_loss,
    token_log_probs,
)

CLOSE = 1e-5  # of the norm, in float32
GRPO, DPO = dict(text.grpo_cases()), {name: rest for name, *rest in text.dpo_cases()}
BATCH = text.batch()


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    with np.load(text.GOLDEN) as file:
        return {name: torch.as_tensor(file[name]) for name in file if name != "meta/made_by"}


def scored(of: text.TinyLM, prompts: Tensor, completions: Tensor) -> Tensor:
    logits = of(torch.cat([prompts, completions], 1))
    return token_log_probs(logits, completions, text.PROMPT - 1)


def gradient(of: text.TinyLM, loss: Tensor) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(of.parameters()))])


def require_equal(theirs: dict[str, Any], case: str, of: text.TinyLM, loss: Tensor) -> None:
    found, expected = gradient(of, loss), theirs[f"{case}/gradient"]
    assert float((found - expected).norm() / expected.norm()) <= CLOSE
    assert float(loss.detach()) == pytest.approx(float(theirs[f"{case}/loss"]), rel=CLOSE, abs=1e-7)


def grpo_loss(of: text.TinyLM, case: text.Case, **loss: Any) -> Tensor:
    mask = BATCH.mask & BATCH.tool_mask if case.tool_mask else BATCH.mask
    weights = None
    if case.mismatch is not None:
        kind, least, most = case.mismatch
        assert most is not None
        weights = importance_weights(BATCH.old, BATCH.sampled, BATCH.mask, kind, most, least)
    return GRPOLoss(**case.loss | loss)(
        scored(of, BATCH.prompts, BATCH.completions),
        BATCH.old if case.old else None,
        BATCH.advantages,
        mask,
        BATCH.ref,
        weights,
        text.MAX_LENGTH,
        text.TOKENS,
    ).total


@pytest.mark.parametrize("name", GRPO)
def test_a_grpo_loss_and_its_gradient_are_trls(name: str, theirs: dict[str, Any]) -> None:
    of = text.model()
    require_equal(theirs, f"grpo/{name}", of, grpo_loss(of, GRPO[name]))


def test_the_65_grpo_and_9_dpo_cases_have_pairwise_different_gradients(
    theirs: dict[str, Any],
) -> None:
    gradients = [theirs[f"grpo/{name}/gradient"] for name in GRPO]
    assert (len(GRPO), len(DPO)) == (65, 9)  # with RLOO's, 75
    first = [name for name in GRPO if "first step" in name]
    same = {  # at a ratio of 1, nothing is clipped and the ratio of the completion is the same
        frozenset(("grpo, first step", "gspo, first step")),
        frozenset(("dapo, first step", "cispo, first step")),
    }
    for i, a in enumerate(GRPO):
        for j, b in enumerate(GRPO):
            if i < j and frozenset((a, b)) not in same:
                assert not torch.allclose(gradients[i], gradients[j], rtol=1e-3), (a, b)
    assert len(first) == 6


@pytest.mark.parametrize("name", DPO)
def test_a_preference_loss_and_its_gradient_are_trls(name: str, theirs: dict[str, Any]) -> None:
    of, (loss, reference) = text.model(), DPO[name]
    log_probs = scored(of, BATCH.prompts, BATCH.completions) * BATCH.mask
    ref = (BATCH.ref * BATCH.mask).sum(1) * reference
    sums = CompletionLogProbs(log_probs.sum(1), ref, BATCH.mask.sum(1))
    chosen, rejected = (CompletionLogProbs(*(part[first::2] for part in sums)) for first in (0, 1))
    require_equal(theirs, f"dpo/{name}", of, DPOLoss(**loss)(chosen, rejected).total)


def test_rloos_loss_and_its_gradient_are_trls(theirs: dict[str, Any]) -> None:
    of = text.model()
    log_probs = scored(of, BATCH.prompts, BATCH.completions)
    loss = rloo_loss(log_probs, BATCH.old, BATCH.advantages, BATCH.mask, 0.2)
    require_equal(theirs, "rloo", of, loss)


@pytest.mark.parametrize("rewards", ["whole", "missing"])
@pytest.mark.parametrize("scale", text.SCALES)
def test_group_advantages_equal_those_of_trl_also_with_missing_rewards(
    scale: Any, rewards: str, theirs: dict[str, Any]
) -> None:
    """The advantages combine two weighted rewards, of which one or both may be missing."""
    given = text.rewards(rewards == "missing").numpy()
    found = group_advantages(given, text.GROUP, text.WEIGHTS, scale)
    expected = theirs[f"advantages/{rewards}/{scale}"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rewards", ["whole", "missing"])
def test_advantages_that_are_standardised_before_they_are_summed_are_trls(
    rewards: str, theirs: dict[str, Any]
) -> None:
    given = text.rewards(rewards == "missing").numpy()
    found = group_advantages(given, text.GROUP, text.WEIGHTS, aggregation="normalize_then_sum")
    expected = theirs[f"advantages/{rewards}/normalize_then_sum"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_leave_one_out_advantages_equal_trls(theirs: dict[str, Any]) -> None:
    found = leave_one_out_advantages(text.rewards().sum(1).numpy(), text.GROUP)
    np.testing.assert_allclose(found, theirs["rloo/advantages"], rtol=1e-5, atol=1e-6)
