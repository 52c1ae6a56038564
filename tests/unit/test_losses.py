"""Tests that each loss equals its equation on numbers small enough to compute by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import tensor

from rlox.errors import ConfigError, ShapeError
from rlox.losses import (
    DPOLoss,
    GRPOLoss,
    PPOLoss,
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    kl_estimate,
    standardize,
    value_loss,
)
from rlox.policies import DiscretePolicy


def test_the_surrogate_takes_the_worse_of_the_plain_and_the_clipped_objective() -> None:
    ratio = tensor([1.5, 1.5, 0.5, 0.5])
    advantages = tensor([1.0, -1.0, 1.0, -1.0])
    # min(rA, clip(r)A): 1.2, -1.5, 0.5, -0.8
    loss = clipped_surrogate(ratio.log(), advantages, 0.2)
    assert float(loss) == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8) / 4)


def test_a_clipped_ratio_has_no_gradient_and_a_pessimistic_one_keeps_it() -> None:
    log_ratio = tensor([1.5, 1.5, 0.5, 0.5]).log().requires_grad_()
    clipped_surrogate(log_ratio, tensor([1.0, -1.0, 1.0, -1.0]), 0.2).backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([0.0, 1.5 / 4, -0.5 / 4, 0.0])


def test_without_clipping_the_gradient_is_that_of_importance_weighted_a2c() -> None:
    log_ratio = tensor([2.0, -3.0, 0.1]).requires_grad_()
    advantages = tensor([1.0, -2.0, 3.0])
    clipped_surrogate(log_ratio, advantages, 1e9).backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx((-log_ratio.exp() * advantages / 3).tolist())


def test_the_value_loss_is_the_plain_mean_square_without_a_half() -> None:
    assert float(value_loss(tensor([1.0, 2.0]), tensor([4.0, 2.0]))) == 4.5


def test_the_clipped_value_loss_takes_the_larger_square_of_each_row() -> None:
    values, old, returns = tensor([3.0, 3.0, 1.1]), tensor([1.0, 1.0, 1.0]), tensor([0.0, 4.0, 2.0])
    # clipped to [0.5, 1.5]: 1.5, 1.5, 1.1; squares max(9, 2.25), max(1, 6.25), max(.81, .81)
    loss = clipped_value_loss(values, old, returns, 0.5)
    assert float(loss) == pytest.approx((9 + 6.25 + 0.81) / 3)


def test_the_kl_estimate_is_schulmans_k3() -> None:
    assert float(kl_estimate(tensor([0.0, math.log(2)]))) == pytest.approx((2 - 1 - math.log(2)) / 2)


def test_the_clipped_part_is_that_of_rows_outside_the_range_on_either_side() -> None:
    log_ratio = tensor([1.3, 0.7, 1.1, 0.9, 1.0]).log()
    assert float(clip_fraction(log_ratio, 0.2)) == pytest.approx(2 / 5)


def test_standardised_advantages_use_the_sample_deviation_and_epsilon() -> None:
    assert standardize(tensor([1.0, 3.0])).tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert standardize(tensor([2.0, 2.0])).tolist() == [0.0, 0.0]


def test_a_single_advantage_is_left_as_it_is() -> None:
    assert standardize(tensor([5.0])).tolist() == [5.0]


def test_the_total_is_policy_minus_entropy_plus_value_with_their_weights() -> None:
    terms = PPOLoss(clip_eps=0.2, vf_coef=0.7, ent_coef=0.3).terms(
        log_probs=tensor([0.5]).log(),
        entropy=tensor([2.0]),
        values=tensor([1.0]),
        old_log_probs=tensor([0.4]).log(),
        advantages=tensor([1.0]),
        returns=tensor([3.0]),
        old_values=tensor([0.0]),
    )
    assert float(terms.policy) == pytest.approx(-1.2)
    assert float(terms.total) == pytest.approx(-1.2 - 0.3 * 2 + 0.7 * 4)
    assert float(terms.clip_fraction) == 1.0
    assert float(terms.approx_kl) == pytest.approx(0.25 - math.log(1.25), rel=1e-5)


def test_only_the_total_carries_a_gradient() -> None:
    row = [tensor([x], requires_grad=True) for x in (0.1, 0.2, 0.3)]
    terms = PPOLoss().terms(*row, *[tensor([x]) for x in (0.0, 1.0, 4.0, 1.0)])
    assert [t.requires_grad for t in terms] == [True] + [False] * 5


def test_value_clipping_is_chosen_by_the_constructor() -> None:
    row = [tensor([x]) for x in (0.0, 0.0, 3.0, 0.0, 1.0, 4.0, 1.0)]
    assert float(PPOLoss(clip_vloss=False).terms(*row).value) == 1.0
    assert float(PPOLoss(clip_vloss=True, clip_eps=0.5).terms(*row).value) == 6.25


def test_the_documented_call_gives_the_total_and_its_parts_as_floats() -> None:
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    policy = DiscretePolicy(3, 2)
    actions = torch.tensor([0, 1, 0, 1, 1])
    old, _ = policy.get_logprob_and_entropy(obs, actions)
    total, parts = PPOLoss(ent_coef=0.0, vf_coef=0.5)(
        policy, obs, actions, old.detach(), torch.ones(5), torch.zeros(5), torch.zeros(5)
    )
    total.backward()
    assert set(parts) == {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"}
    assert all(type(v) is float for v in parts.values())
    assert parts["policy_loss"] == pytest.approx(-1.0)
    assert float(total.detach()) == pytest.approx(-1.0 + 0.5 * parts["value_loss"])
    assert all(p.grad is not None for p in policy.parameters())


COLUMNS = ("old_log_probs", "advantages", "returns", "old_values")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1), (1, 2), ()])
def test_a_column_that_would_be_broadcast_is_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    columns = {each: torch.zeros(2) for each in COLUMNS} | {name: torch.zeros(shape)}
    with pytest.raises(ShapeError, match=rf"{name} of shape .*, expected \[2\]"):
        PPOLoss()(DiscretePolicy(3, 2), torch.zeros(2, 3), torch.zeros(2), *columns.values())


def test_values_of_a_policy_that_would_be_broadcast_are_refused_by_name() -> None:
    class Column(DiscretePolicy):
        def get_value(self, obs: torch.Tensor) -> torch.Tensor:
            return super().get_value(obs).unsqueeze(-1)

    columns = [torch.zeros(2) for _ in COLUMNS]
    with pytest.raises(ShapeError, match=r"the policy's values of shape \[2, 1\], expected \[2\]"):
        PPOLoss()(Column(3, 2), torch.zeros(2, 3), torch.zeros(2).long(), *columns)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clip_eps": "a"}, "clip_eps='a', expected a number"),
        ({"clip_eps": -0.1}, "clip_eps=-0.1, expected a number >= 0"),
        ({"clip_eps": math.nan}, "clip_eps=nan, expected a number >= 0"),
        ({"clip_eps": None}, "clip_eps=None, expected a number"),
        ({"vf_coef": "x"}, "vf_coef='x', expected a number"),
        ({"ent_coef": True}, "ent_coef=True, expected a number"),
        ({"max_grad_norm": "x"}, "max_grad_norm='x', expected a number"),
        ({"clip_vloss": "no"}, "clip_vloss='no', expected True or False"),
    ],
)
def test_the_constructor_refuses_settings_of_another_kind(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{told}$"):
        PPOLoss(**given)


def test_the_constructor_takes_numbers_of_numpy_and_no_limit_of_gradients() -> None:
    loss = PPOLoss(clip_eps=np.float32(0.25), max_grad_norm=None)  # type: ignore[arg-type]
    assert (loss.clip_eps, loss.max_grad_norm) == (0.25, None)


@pytest.mark.parametrize(
    ("at", "value", "told"),
    [
        (0, 5, "policy int lacks get_logprob_and_entropy"),
        (1, None, "obs is a NoneType, expected a tensor"),
        (1, np.zeros((2, 3), np.float32), "obs is a ndarray, expected a tensor"),
        (1, torch.tensor(1.0), "obs is a tensor without dimensions, expected a tensor"),
        (2, [0, 1], "actions is a list, expected a tensor"),
        (3, [0.0, 0.0], r"old_log_probs is a list, expected a tensor \[2\]"),
        (4, np.zeros(2), r"advantages is a ndarray, expected a tensor \[2\]"),
        (5, None, r"returns is a NoneType, expected a tensor \[2\]"),
    ],
)
def test_an_argument_of_another_kind_is_refused_by_name(at: int, value: Any, told: str) -> None:
    given: list[Any] = [DiscretePolicy(3, 2), torch.zeros(2, 3), torch.zeros(2).long()]
    given += [torch.zeros(2) for _ in COLUMNS]
    given[at] = value
    with pytest.raises((ConfigError, ShapeError), match=f"^PPOLoss: {told}"):
        PPOLoss()(*given)


def test_log_probs_without_a_gradient_beside_values_with_one_are_refused() -> None:
    class Detached(DiscretePolicy):
        def get_logprob_and_entropy(self, *given: torch.Tensor) -> Any:
            log_prob, entropy = super().get_logprob_and_entropy(*given)
            return log_prob.detach(), entropy

    given = Detached(3, 2), torch.zeros(2, 3), torch.zeros(2).long()
    columns = [torch.zeros(2) for _ in COLUMNS]
    with pytest.raises(ConfigError, match="PPOLoss: the policy's log_probs have no gradient"):
        PPOLoss()(*given, *columns)
    with torch.no_grad():  # computes only the loss
        assert torch.isfinite(PPOLoss()(*given, *columns)[0])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: GRPOLoss(clip_eps="x"), "clip_eps='x', expected a number"),  # type: ignore[arg-type]
        (lambda: GRPOLoss(delta="x"), "delta='x', expected a number"),  # type: ignore[arg-type]
        (lambda: DPOLoss(beta="x"), "beta='x', expected a number"),  # type: ignore[arg-type]
    ],
)
def test_losses_of_text_refuse_settings_that_are_no_numbers(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()
