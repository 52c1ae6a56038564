"""Tests that a language model stays on the user's device, whatever device the prompts are on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import DPO, GRPO, BestOfN

from .conftest import Place

pytestmark = pytest.mark.filterwarnings("ignore:.*from a non-meta parameter:UserWarning")

PROMPTS = torch.tensor([[3, 4, 5], [6, 3, 4]])


def words(place: Place) -> nn.Module:
    made = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    for number, parameter in enumerate(made.parameters()):
        generator = torch.Generator().manual_seed(number)
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
    return made.to(place.device)


def low(completions: list[Tensor], prompts: Any) -> list[float]:
    assert {row.device.type for row in (*completions, *prompts)} == {"cpu"}
    return [float((c < 5).double().mean()) for c in completions]


def test_a_model_that_is_given_stays_where_it_is(place: Place, tmp_path: Path) -> None:
    grpo = GRPO(words(place), None, low, max_new_tokens=4, learning_rate=0.05)
    grpo.train_step(PROMPTS.to(place.device))
    assert {part.device for part in grpo.policy.parameters()} == {place.device}
    assert {row.device.type for row in grpo.generate(PROMPTS, deterministic=False)} == {"cpu"}
    assert grpo.evaluate(PROMPTS.to(place.device)) == pytest.approx(grpo.evaluate(PROMPTS))
    grpo.save(tmp_path / "saved")
    again = GRPO.from_checkpoint(tmp_path / "saved", words(place), reward_fn=low)
    for made in (grpo, again):
        made.train_step(PROMPTS)
    for one, other in zip(grpo.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(one.detach().cpu(), other.detach().cpu())


def test_pairs_are_compared_by_a_model_on_a_device(place: Place) -> None:
    dpo = DPO(words(place))
    given = [rows.to(place.device) for rows in (PROMPTS, PROMPTS, PROMPTS.flip(1))]
    known = dpo.reference_log_probs(*given)
    assert {part.device.type for part in known} == {"cpu"}
    loss, _ = dpo.compute_loss(*given, ref_log_probs=known)
    assert float(loss.detach().cpu()) == pytest.approx(0.6931, abs=1e-4)
    assert DPO(words(place), reference_free=True).reference_log_probs(*given)[0].tolist() == [0, 0]


def test_the_best_of_several_is_the_same_wherever_the_model_is(place: Place) -> None:
    there = BestOfN(words(place), low, n=4, max_new_tokens=4).generate(PROMPTS.to(place.device))
    here = BestOfN(words(place).cpu(), low, n=4, max_new_tokens=4).generate(PROMPTS)
    assert torch.equal(there.cpu(), here)
