"""Tests losses of language models against their papers; tests/parity compares them with TRL's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlox.errors import ConfigError, ShapeError
from rlox.llm import group_advantages, leave_one_out_advantages
from rlox.losses import (
    CompletionLogProbs,
    DPOLoss,
    GRPOLoss,
    importance_weights,
    rloo_loss,
)
from rlox.losses.grpo import LOSS_TYPES

MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
GAINS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def log_probs(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return -torch.rand(MASK.shape, dtype=torch.float64, generator=generator)


def slope(loss: Tensor, of: Tensor) -> Tensor:
    return torch.autograd.grad(loss, of)[0]


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_the_first_step_is_the_policy_gradient_of_tokens_that_count(loss_type: str) -> None:
    """The ratio is 1, so nothing is clipped. Padding has no gradient."""
    now = log_probs().requires_grad_()
    terms = GRPOLoss(loss_type)(now, None, GAINS, MASK, max_length=5)
    lengths = MASK.sum(1, keepdim=True)
    weight = {
        "grpo": 1 / (3 * lengths), "gspo": 1 / (3 * lengths), "dr_grpo": torch.full((3, 1), 1 / 15),
    }.get(loss_type, torch.full((3, 1), 1 / 8))  # fmt: skip
    expected = -GAINS.unsqueeze(1) * weight * MASK
    torch.testing.assert_close(slope(terms.total, now), expected)
    assert (float(terms.clip_low), float(terms.clip_high), float(terms.kl)) == (0.0, 0.0, 0.0)
    again = GRPOLoss(loss_type)(now, now.detach(), GAINS, MASK, max_length=5)
    torch.testing.assert_close(again.total, terms.total)


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "bnpo"])
def test_a_clipped_token_ratio_has_no_gradient(loss_type: str) -> None:
    old = log_probs()
    moved = torch.tensor([[0.5, -0.5, 0.1, 9.0], [-0.5, 9.0, 9.0, 9.0], [0.1, 0.0, 0.3, -0.3]])
    now = (old + moved).requires_grad_()
    terms = GRPOLoss(loss_type, clip_eps=0.2, clip_eps_high=0.4)(now, old, GAINS, MASK, max_length=4)
    found = slope(terms.total, now) != 0
    assert found.tolist() == [
        [False, True, True, False],  # e^0.5 > 1.4 with A > 0
        [False, False, False, False],  # e^-0.5 < 0.8 with A < 0
        [True, True, True, True],
    ]
    assert float(terms.clip_high) == pytest.approx(1 / 8)
    assert float(terms.clip_low) == pytest.approx(1 / 8)


def test_delta_limits_the_ratio_of_a_token_with_a_negative_advantage() -> None:
    old = torch.zeros(1, 1, dtype=torch.float64)
    now, bad, one = (
        torch.full((1, 1), 3.0, dtype=torch.float64),
        torch.tensor([-1.0]),
        torch.ones(1, 1),
    )
    assert float(GRPOLoss()(now, old, bad, one).total) == pytest.approx(math.exp(3.0))
    assert float(GRPOLoss(delta=4.0)(now, old, bad, one).total) == pytest.approx(4.0)


def test_losses_of_a_batchs_parts_add_up_to_the_whole_with_its_number_of_tokens() -> None:
    now, old = log_probs().requires_grad_(), log_probs(1)
    whole = GRPOLoss("dapo")(now, old, GAINS, MASK).total
    parts = [
        GRPOLoss("dapo")(now[rows], old[rows], GAINS[rows], MASK[rows], tokens=8.0).total
        for rows in (slice(0, 1), slice(1, 3))
    ]
    torch.testing.assert_close(parts[0] + parts[1], whole)


@pytest.mark.parametrize(("estimator", "corrected"), [("k1", True), ("k2", False), ("k3", True)])
def test_the_mean_gradient_of_the_penalty_is_that_of_the_divergence(estimator: str, corrected: bool) -> None:
    """The mean is over all tokens of a vocabulary, weighted by the policy's probabilities."""
    generator = torch.Generator().manual_seed(3)
    logits, ref = torch.randn(2, 7, dtype=torch.float64, generator=generator)
    logits.requires_grad_()
    said, by_ref = logits.log_softmax(-1), ref.log_softmax(-1)
    exact = slope((said.exp() * (said - by_ref)).sum(), logits)
    loss = GRPOLoss("grpo", kl_coef=1.0, kl_estimator=estimator, kl_correction=corrected)
    mean, one = torch.zeros(7, dtype=torch.float64), torch.ones(1, 1)
    for token in range(7):
        drawn = logits.log_softmax(-1)[token].view(1, 1)
        terms = loss(drawn, None, torch.zeros(1), one, by_ref[token].view(1, 1))
        mean += drawn.detach().exp().squeeze() * slope(terms.total, logits)
    torch.testing.assert_close(mean, exact)


def test_a_kl_penalty_with_a_mean_gradient_of_0_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kl_estimator=k1 with kl_correction=false.* 0 on average"):
        GRPOLoss(kl_coef=0.1, kl_estimator="k1", kl_correction=False)
    GRPOLoss(kl_estimator="k1", kl_correction=False)  # accepted without a penalty


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_grpo_losses_and_gradients_ignore_values_of_masked_tokens(loss_type: str) -> None:
    """They come from a reference with zeros as padding, or from a token without probability."""
    now, old, ref = log_probs(), log_probs(1), log_probs(2)
    loss = GRPOLoss(loss_type, kl_coef=0.3)
    found = []
    for behind in (0.0, -120.0, -torch.inf):
        given = [torch.where(MASK, of, behind) for of in (now, old, ref)]
        learned = given[0].requires_grad_()
        terms = loss(learned, given[1], GAINS, MASK, torch.where(MASK, ref, 0.0), max_length=4)
        found.append((terms.total, slope(terms.total, learned)))
        assert torch.isfinite(slope(rloo_loss(learned, given[1], GAINS, MASK, 0.2), learned)).all()
    for total, gradient in found[1:]:
        torch.testing.assert_close(total, found[0][0])
        torch.testing.assert_close(gradient, found[0][1])
    assert not found[0][1][~MASK].any()


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_batch_in_which_no_token_counts_says_nothing(loss_type: str) -> None:
    now = log_probs().requires_grad_()
    terms = GRPOLoss(loss_type)(now, None, GAINS, torch.zeros_like(MASK), max_length=4, tokens=0.0)
    assert float(terms.total.detach()) == 0.0
    assert not slope(terms.total, now).any()


def test_metrics_of_grpo_losses_count_unmasked_tokens_only() -> None:
    old, ref = log_probs(), log_probs(2)
    now = old + torch.tensor([[0.5, 0.1, 0.1, 9.0], [-0.5, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0]])
    apart = (ref - now)[MASK]
    expected = ((apart.exp() - apart - 1) * (now - old)[MASK].exp()).mean()
    terms = GRPOLoss("bnpo", kl_coef=0.3)(now, old, GAINS, MASK, ref)
    torch.testing.assert_close(terms.kl, expected)
    torch.testing.assert_close(terms.total, terms.policy + 0.3 * terms.kl)
    assert (float(terms.clip_low), float(terms.clip_high)) == pytest.approx((1 / 8, 2 / 8))
    capped = GRPOLoss("cispo", clip_eps_high=0.2)(now, old, GAINS, MASK)
    assert (float(capped.clip_low), float(capped.clip_high)) == pytest.approx((0.0, 2 / 8))
    whole = GRPOLoss("gspo", clip_eps=0.2)(now, old, GAINS, MASK)  # ratios e^0.23, e^-0.5, e^0.125
    assert (float(whole.clip_low), float(whole.clip_high)) == pytest.approx((1 / 3, 1 / 3))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"advantages": GAINS.unsqueeze(1)}, r"advantages \[3, 1\], expected \[3\]: one for each"),
        ({"advantages": GAINS[:1]}, r"advantages \[1\], expected \[3\]"),
        ({"mask": MASK[:, :1]}, r"mask \[\[3, 4\], \[3, 4\], \[3, 1\]"),
        ({"old_log_probs": log_probs()[:1]}, r"expected the same shape \[B, T\] for all"),
        ({"ref_log_probs": log_probs()[:, :1]}, r"expected the same shape \[B, T\] for all"),
        ({"weights": torch.ones(3)}, r"weights \[3\], expected \[3, 4\] or \[3, 1\]"),
    ],
)
def test_grpo_and_rloo_losses_refuse_shapes_that_need_broadcasting(
    changed: dict[str, Any], told: str
) -> None:
    given = {"old_log_probs": log_probs(), "advantages": GAINS, "mask": MASK, **changed}
    with pytest.raises(ShapeError, match=told):
        GRPOLoss()(log_probs(), **given)
    if "advantages" in changed:
        with pytest.raises(ShapeError, match=r"expected \[B, T\], \[B, T\] and \[B\]"):
            rloo_loss(log_probs(), log_probs(), changed["advantages"], MASK, 0.2)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clip_eps": -0.1}, r"clip_eps=-0.1, expected a number in \[0, 1\)"),
        ({"clip_eps": float("nan")}, r"clip_eps=nan"),
        ({"clip_eps_high": -1.0}, r"clip_eps_high=-1.0, expected a number >= 0"),
        ({"delta": 0.5}, r"delta=0.5, expected a number >= 1"),
        ({"delta": 1.1}, r"delta=1.1 is below 1 \+ clip_eps_high = 1.2, .*at least 1.2, or none"),
        ({"delta": 1.2, "clip_eps_high": 0.3}, r"delta=1.2 is below 1 \+ clip_eps_high = 1.3"),
        ({"kl_coef": -0.1}, r"kl_coef=-0.1, expected a number >= 0"),
        ({"delta": 2.0, "loss_type": "cispo"}, r"delta=2.0 does not apply to loss_type=cispo"),
    ],
)
def test_grpo_losses_refuse_coefficients_out_of_range(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        GRPOLoss(**given)


@pytest.mark.parametrize("most", [None, 3])
def test_dr_grpo_divides_by_what_completions_may_have(most: int | None) -> None:
    with pytest.raises(ConfigError, match=rf"max_length={most}: dr_grpo .* at least 4, the length of these"):
        GRPOLoss("dr_grpo")(log_probs(), None, GAINS, MASK, max_length=most)


def test_text_losses_refuse_unknown_types_and_missing_references() -> None:
    now = log_probs()
    with pytest.raises(ConfigError, match="loss_type=ppo, expected one of grpo, dr_grpo"):
        GRPOLoss("ppo")
    with pytest.raises(ConfigError, match=r"kl_estimator=k4, expected one of k1, k2, k3"):
        GRPOLoss(kl_estimator="k4")
    with pytest.raises(ConfigError, match=r"kl_coef=0.1 needs log-probabilities of a reference"):
        GRPOLoss(kl_coef=0.1)(now, None, GAINS, MASK)
    with pytest.raises(ConfigError, match="correction=word, expected one of token_truncate"):
        importance_weights(now, now, MASK, "word")


def test_importance_weights_are_truncated_or_masked_ratios() -> None:
    now = torch.log(torch.tensor([[4.0, 1.0, 0.5], [1.0, 1.0, 9.0]]))
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    zero = torch.zeros_like(now)

    def found(correction: str, **limits: Any) -> list[list[float]]:
        rows: list[list[float]] = importance_weights(now, zero, mask, correction, **limits).tolist()
        return [[round(number, 6) for number in row] for row in rows]

    assert found("token_truncate") == [[3, 1, 0.5], [1, 1, 1]]
    assert found("token_truncate", min_weight=0.8) == [[3, 1, 0.8], [1, 1, 1]]
    assert found("token_mask", min_weight=0.8) == [[0, 1, 0], [1, 1, 1]]
    assert found("sequence_truncate", max_weight=1.5) == [[1.5], [1]]
    assert found("sequence_mask", max_weight=1.5) == [[0], [1]]
    zero[0, 0] = torch.nan  # an unknown log-probability counts as equal
    assert found("sequence_mask", max_weight=1.5) == [[0.5], [1]]
    assert (
        found("token_truncate", max_weight=None)
        == found("token_mask", max_weight=None)
        == [[1, 1, 0.5], [1, 1, 1]]
    )
    with pytest.raises(ConfigError, match=r"min_weight=2.0 and max_weight=1.0: expected"):
        found("token_mask", min_weight=2.0, max_weight=1.0)


def pairs(seed: int = 0) -> tuple[CompletionLogProbs, CompletionLogProbs, Tensor]:
    """Makes pairs of completions whose log-probabilities equal those of the reference."""
    generator = torch.Generator().manual_seed(seed)
    both = -10 * torch.rand(2, 5, dtype=torch.float64, generator=generator)
    ref, lengths = both.clone(), torch.randint(1, 9, (2, 5), generator=generator)
    both.requires_grad_()
    chosen, rejected = (CompletionLogProbs(both[i], ref[i], lengths[i]) for i in (0, 1))
    return chosen, rejected, both


def test_preferences_are_learned_from_ln_2_on() -> None:
    chosen, rejected, both = pairs()
    terms = DPOLoss(beta=0.3)(chosen, rejected)
    assert float(terms.total.detach()) == pytest.approx(math.log(2.0))
    assert (float(terms.accuracy), float(terms.margin)) == (0.0, 0.0)
    expected = torch.tensor([[-0.5], [0.5]], dtype=torch.float64) * 0.3 / 5
    torch.testing.assert_close(slope(terms.total, both), expected.expand(2, 5))


@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo", "hinge", "robust"])
def test_exchanged_completions_turn_the_gradient_round(loss_type: str) -> None:
    chosen, rejected, both = pairs()
    lengths = torch.full((5,), 4)
    chosen, rejected = chosen._replace(lengths=lengths), rejected._replace(lengths=lengths)
    loss = DPOLoss(loss_type, label_smoothing=0.1 if loss_type == "robust" else 0.0)
    forth, back = (slope(loss(*of).total, both) for of in ((chosen, rejected), (rejected, chosen)))
    torch.testing.assert_close(forth, -back)
    assert (forth[0] < 0).all()


def test_label_smoothing_moves_the_minimum_to_the_log_odds() -> None:
    """cDPO's minimum is where the difference of rewards is the log-odds of that part."""
    margin = math.log(0.8 / 0.2)
    apart = torch.tensor([margin], dtype=torch.float64, requires_grad=True)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1)
    terms = DPOLoss("sigmoid", 1.0, 0.2)(
        CompletionLogProbs(apart, zero, one), CompletionLogProbs(zero, zero, one)
    )
    assert float(slope(terms.total, apart)) == pytest.approx(0.0, abs=1e-12)
    assert (float(terms.accuracy), float(terms.margin)) == (1.0, pytest.approx(margin))


def test_the_mean_of_robust_dpo_over_label_noise_is_dpo() -> None:
    """Chowdhury et al. 2024: with a part e of exchanged pairs, (1 - e) L(z) + e L(-z) is DPO's loss."""
    e, apart = 0.2, torch.tensor([1.3], dtype=torch.float64)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1)
    robust, plain = DPOLoss("robust", 1.0, e), DPOLoss("sigmoid", 1.0)
    a, b = CompletionLogProbs(apart, zero, one), CompletionLogProbs(zero, zero, one)
    mean = (1 - e) * robust(a, b).total + e * robust(b, a).total
    torch.testing.assert_close(mean, plain(a, b).total)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"loss_type": "dpo"}, "loss_type=dpo, expected one of sigmoid, ipo, hinge, robust"),
        ({"beta": 0.0}, r"beta=0.0, expected a number > 0"),
        ({"label_smoothing": 0.5}, r"label_smoothing=0.5, expected a number in \[0, 0.5\)"),
        (
            {"label_smoothing": 0.1, "loss_type": "ipo"},
            "applies to sigmoid and robust, not to loss_type=ipo",
        ),
    ],
)
def test_dpo_loss_refuses_invalid_settings(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        DPOLoss(**given)


def test_rloos_gradient_is_that_of_whole_completions() -> None:
    now = log_probs().requires_grad_()
    found = slope(rloo_loss(now, now.detach(), GAINS, MASK, 0.2), now)
    torch.testing.assert_close(found, -GAINS.unsqueeze(1) * MASK / 3)


def test_leave_one_out_advantages_subtract_the_mean_reward_of_the_others() -> None:
    rewards = np.array([1.0, 0.0, 0.5, 0.5, 3.0, 3.0])
    found = leave_one_out_advantages(rewards, 3)
    np.testing.assert_allclose(found, [0.75, -0.75, 0.0, -2.5, 1.25, 1.25])
    mean = rewards.reshape(2, 3).mean(1).repeat(3)
    np.testing.assert_allclose(found, 3 / 2 * (rewards - mean), atol=1e-6)
    lonely = leave_one_out_advantages(np.array([1.0, np.nan, np.nan, 5.0, 1.0, np.nan]), 3)
    np.testing.assert_allclose(lonely, [0.0, 0.0, 0.0, 4.0, -4.0, 0.0])


def test_a_group_is_standardised_by_its_sample_deviation() -> None:
    found = group_advantages(np.array([1.0, 0.0, 2.0, 7.0, 7.0, 7.0]), 3)
    np.testing.assert_allclose(found, [0.0, -1.0, 1.0, 0.0, 0.0, 0.0], atol=2e-4)
    raw = group_advantages(np.array([1.0, 0.0, 2.0, 7.0, 7.0, 7.0]), 3, scale="none")
    np.testing.assert_allclose(raw, [0.0, -1.0, 1.0, 0.0, 0.0, 0.0])


def test_a_completion_without_a_reward_is_left_out_of_its_group() -> None:
    rewards = np.array([[1.0, np.nan], [0.0, 0.0], [np.nan, np.nan], [2.0, 0.0]])
    found = group_advantages(rewards, 4, scale="none")
    np.testing.assert_allclose(found, [0.0, -1.0, 0.0, 1.0])
    np.testing.assert_allclose(group_advantages(rewards, 4), found, atol=2e-4)
    assert group_advantages(rewards, 4).dtype == np.float32


def test_group_advantages_refuse_unknown_scales_and_aggregations() -> None:
    with pytest.raises(ConfigError, match="scale=row, expected one of group, batch, none"):
        group_advantages(np.ones(4), 2, scale="row")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="aggregation=sum, expected one of sum_then_normalize"):
        group_advantages(np.ones(4), 2, aggregation="sum")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"rewards \[4, 2\]: expected \[B\]"):
        leave_one_out_advantages(np.ones((4, 2)), 2)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_missing_reward_changes_nothing_of_other_groups(scale: Any) -> None:
    """NumPy computes the advantages with a missing reward, Rust without one."""
    rewards = np.random.default_rng(0).random(12)
    missing = np.concatenate([rewards, np.full(4, np.nan)])
    found = group_advantages(missing, 4, scale=scale)
    np.testing.assert_allclose(found[:12], group_advantages(rewards, 4, scale=scale), rtol=1e-5)
    assert not found[12:].any()


def test_a_preference_without_a_token_has_a_finite_gradient() -> None:
    chosen, rejected, both = pairs()
    empty = rejected._replace(lengths=torch.zeros(5, dtype=torch.long))
    assert torch.isfinite(slope(DPOLoss("ipo")(chosen, empty).total, both)).all()


@pytest.mark.parametrize(
    ("rewards", "size", "weights", "told"),
    [
        (np.ones(4), 3, None, "group_size=3 and 4 completions: expected groups of at least 2"),
        (np.ones(4), 1, None, "group_size=1 and 4 completions"),
        (np.ones((2, 2, 2)), 2, None, r"rewards \[2, 2, 2\]: expected \[B\] or \[B, F\]"),
        (np.ones((4, 2)), 2, (1.0,), "1 weights for 2 rewards"),
        (np.array([1.0, np.inf]), 2, None, "reward inf: expected numbers, or NaN for none"),
        (np.ones((4, 2)), 2, (1.0, np.nan), r"weights \[1.0, nan\]: expected finite numbers"),
    ],
)
def test_group_advantages_refuse_rewards_that_form_no_groups(
    rewards: Any, size: int, weights: Any, told: str
) -> None:
    with pytest.raises((ConfigError, ShapeError), match=told):
        group_advantages(rewards, size, weights)
