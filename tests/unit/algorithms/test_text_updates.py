"""Tests that an update of each text algorithm follows its definition."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny_lm import TinyLM
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from rlox.algorithms import DPO, GRPO, RLOO, SFT, OnlineDPO
from rlox.types import Clock

PROMPTS = torch.tensor([[3, 4, 5], [6, 3, 4], [7, 7, 3]])


def said(table: Tensor, prompt: Tensor, completion: Tensor) -> Tensor:
    """Return the log-probabilities of a completion's tokens by the definition."""
    whole = torch.cat([prompt, completion])
    logits = log_softmax(table[whole[len(prompt) - 1 : -1]], -1)
    return logits[torch.arange(len(completion)), completion]


def adam(table: Tensor, gradient: Tensor, lr: float, norm: float = 1.0) -> Tensor:
    """Return the table after Adam's first step with the gradient clipped to a norm."""
    gradient = gradient * min(1.0, norm / (float(gradient.norm()) + 1e-6))
    return table - lr * gradient / (gradient.abs() + 1e-8)


def batch_of(algorithm: Any, prompts: Tensor = PROMPTS) -> Any:
    """Return the batch from which the algorithm would learn next with these prompts."""
    from rlox.llm.prompts import FixedPrompts

    given = FixedPrompts(prompts, algorithm.clock.samples)
    batch, _ = algorithm.source.batch_of(given.training_prompts(0, len(prompts)), algorithm.clock)
    return batch


def completions_of(batch: Any) -> list[Tensor]:
    return [row[m] for row, m in zip(batch.generated_tokens.tokens, batch.generated_tokens.mask, strict=True)]


def low_tokens(completions: list[Tensor], prompts: Any) -> list[float]:
    """Return the fraction of each completion's tokens below 5."""
    return [float((c < 5).double().mean()) for c in completions]


OPTIONS: dict[str, Any] = {
    "reward_fn": low_tokens,
    "max_new_tokens": 5,
    "group_size": 4,
    "learning_rate": 0.01,
    "eos_token_id": (8,),
    "seed": 3,
}


def test_a_grpo_step_follows_the_gradient_of_the_papers_loss() -> None:
    reference, model = TinyLM(1), TinyLM(0)
    grpo = GRPO(model, reference, kl_coef=0.3, **OPTIONS)
    batch = batch_of(grpo)
    table = copy.deepcopy(model.table.detach()).double().requires_grad_()
    rows = completions_of(batch)
    assert len({len(row) for row in rows}) > 1, "completions that end early are among them"
    worth = np.array(low_tokens(rows, None)).reshape(-1, 4)
    advantages = (worth - worth.mean(1, keepdims=True)) / (worth.std(1, ddof=1, keepdims=True) + 1e-4)
    total = torch.zeros((), dtype=torch.float64)
    for i, row in enumerate(rows):
        prompt = PROMPTS[i // 4]
        new, ref = said(table, prompt, row), said(reference.table.double(), prompt, row)
        apart = (ref - new).detach() + new.detach() - new  # value ref - new, gradient of -log pi
        penalty = apart.exp() - apart - 1.0
        ratio = (new - new.detach()).exp()
        total = total + (-ratio * advantages.ravel()[i] + 0.3 * penalty * ratio).sum()
    (total / sum(map(len, rows))).backward()
    metrics = grpo.train_step(PROMPTS)
    expected = adam(table.detach(), table.grad, 0.01)
    np.testing.assert_allclose(model.table.detach(), expected, atol=2e-6)
    assert metrics["mean_reward"] == pytest.approx(worth.mean())
    assert metrics["policy/ratio"] == 1.0


def test_the_first_step_of_a_batch_has_the_ratio_1_and_later_ones_have_not() -> None:
    ratios: list[float] = []
    grpo = GRPO(TinyLM(), kl_coef=0.0, n_epochs=3, **OPTIONS)
    learner, real = grpo.learner, grpo.learner.step_on_loss

    def watched(loss: Tensor, *numbers: Tensor, **shares: Any) -> Tensor:
        ratios.append(float(numbers[-1]))
        return real(loss, *numbers, **shares)

    learner.step_on_loss = watched
    grpo.train_step(PROMPTS)
    assert ratios[0] == 1.0
    assert all(abs(ratio - 1.0) > 1e-6 for ratio in ratios[1:])


def test_minibatches_go_through_every_completion_once_in_each_epoch() -> None:
    seen: list[list[float]] = []
    grpo = GRPO(TinyLM(), kl_coef=0.0, n_epochs=2, minibatches=5, **OPTIONS)
    learner, real = grpo.learner, grpo.learner._step

    def watched(batch: Any, at: slice, *columns: Any) -> Tensor:
        seen.append(list(range(len(batch))[at]))
        return real(batch, at, *columns)

    learner._step = watched
    assert grpo.train_step(PROMPTS)["updates"] == 10
    assert len(seen) == 10
    for epoch in (seen[:5], seen[5:]):
        assert [row for part in epoch for row in part] == list(range(12))


def test_mask_truncated_excludes_truncated_completions_from_the_update() -> None:
    grpo = GRPO(TinyLM(), kl_coef=0.0, mask_truncated=True, **OPTIONS)
    batch, before = batch_of(grpo), copy.deepcopy(grpo.policy.table.detach())
    assert not batch.generated_tokens.has_ended.all()
    assert batch.generated_tokens.has_ended.any()
    grpo.train_step(PROMPTS)
    moved = (grpo.policy.table.detach() != before).any(1)
    ended = [row for row in completions_of(batch_of(GRPO(TinyLM(), **OPTIONS))) if row[-1] == 8]
    asked = {int(t) for row in ended for t in row[:-1]} | {int(p[-1]) for p in PROMPTS}
    assert {int(t) for t in moved.nonzero()} <= asked


def test_rloo_subtracts_kl_and_the_mean_of_the_other_rewards() -> None:
    reference, model = TinyLM(1), TinyLM(0)
    rloo = RLOO(model, reference, kl_coef=0.2, **OPTIONS)
    batch = batch_of(rloo)
    table = copy.deepcopy(model.table.detach()).double().requires_grad_()
    rows, worth = completions_of(batch), np.array(low_tokens(completions_of(batch), None))
    sums = [said(table, PROMPTS[i // 4], row).sum() for i, row in enumerate(rows)]
    there = [said(reference.table.double(), PROMPTS[i // 4], row).sum() for i, row in enumerate(rows)]
    kl = np.array([(s - t).item() for s, t in zip(sums, there, strict=True)])
    net = (worth - 0.2 * kl).reshape(-1, 4)
    advantages = (4 / 3 * (net - net.mean(1, keepdims=True))).ravel()
    loss = -sum((s - s.detach()).exp() * float(a) for s, a in zip(sums, advantages, strict=True)) / len(rows)
    loss.backward()
    metrics = rloo.train_step(PROMPTS)
    np.testing.assert_allclose(model.table.detach(), adam(table.detach(), table.grad, 0.01), atol=2e-6)
    tokens = sum(len(row) for row in rows)
    assert metrics["kl"] == pytest.approx(kl.sum() / tokens, rel=1e-5)


def test_sft_learns_the_tokens_of_completions_and_none_of_a_prompt() -> None:
    model = TinyLM()
    table = copy.deepcopy(model.table.detach()).double().requires_grad_()
    completions = [torch.tensor([5, 6, 8]), torch.tensor([4, 8]), torch.tensor([3, 3, 3, 8])]
    sft = SFT(model, learning_rate=0.01)
    each = [
        cross_entropy(table[torch.cat([p[-1:], c[:-1]])], c, reduction="sum")
        for p, c in zip(PROMPTS, completions, strict=True)
    ]
    total = torch.stack(each).sum() / 9
    total.backward()
    loss = total.item()
    assert sft.loss(PROMPTS, completions) == pytest.approx(loss, rel=1e-6)
    assert sft.train_step(PROMPTS, completions)["loss"] == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(model.table.detach(), adam(table.detach(), table.grad, 0.01), atol=2e-6)


CHOSEN, REJECTED = torch.tensor([[5, 8], [6, 8], [4, 8]]), torch.tensor([[3, 3, 8]] * 3)


def test_dpo_begins_at_ln_2_and_swapping_the_completions_turns_the_gradient_round() -> None:
    gradients = []
    for pair in ((CHOSEN, REJECTED), (REJECTED, CHOSEN)):
        dpo = DPO(TinyLM(), beta=0.5)
        loss, metrics = dpo.compute_loss(PROMPTS, *pair)
        loss.backward()
        gradients.append(dpo.policy.table.grad.clone())
        assert metrics["loss"] == pytest.approx(math.log(2.0), abs=1e-6)
        assert metrics["margin"] == 0.0
    np.testing.assert_allclose(gradients[0], -gradients[1], atol=1e-7)
    assert float(gradients[0].norm()) > 0.1


def test_log_probs_of_a_reference_that_were_taken_before_give_the_same_loss() -> None:
    dpo = DPO(TinyLM(0), TinyLM(1), beta=0.5)
    taken = dpo.reference_log_probs(PROMPTS, CHOSEN, REJECTED)
    whole, _ = dpo.compute_loss(PROMPTS, CHOSEN, REJECTED)
    known, _ = dpo.compute_loss(PROMPTS, CHOSEN, REJECTED, taken)
    assert float(whole.detach()) == float(known.detach()) != pytest.approx(math.log(2.0))
    free, _ = DPO(TinyLM(0), beta=0.5, reference_free=True).compute_loss(PROMPTS, CHOSEN, REJECTED)
    table = TinyLM(0).table
    apart = [
        (said(table, p, a).sum() - said(table, p, b).sum()).item()
        for p, a, b in zip(PROMPTS, CHOSEN, REJECTED, strict=True)
    ]
    by_hand = np.mean([-math.log(1.0 / (1.0 + math.exp(-0.5 * h))) for h in apart])
    assert float(free.detach()) == pytest.approx(by_hand, rel=1e-5)


def test_online_dpo_equals_dpo_on_the_pairs_with_a_preference() -> None:
    def shorter(pairs: list[Any]) -> list[int]:
        return [-1 if len(a) == len(b) else int(len(b) < len(a)) for a, b in pairs]

    online = OnlineDPO(
        TinyLM(), None, shorter, max_new_tokens=5, eos_token_id=(8,), learning_rate=0.01, seed=3
    )
    many = PROMPTS.repeat(4, 1)
    rows = completions_of(batch_of(online, many))
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    told = [k for k, which in enumerate(shorter(pairs)) if which >= 0]
    assert 0 < len(told) < len(pairs)
    dpo = DPO(TinyLM(), learning_rate=0.01)
    better = [pairs[k][shorter(pairs)[k]] for k in told]
    worse = [pairs[k][1 - shorter(pairs)[k]] for k in told]
    dpo.train_step(many[told], better, worse)
    metrics = online.train_step(many)
    np.testing.assert_allclose(online.policy.table.detach(), dpo.policy.table.detach(), atol=1e-7)
    assert metrics["reward/told_apart"] == pytest.approx(len(told) / len(pairs))


def test_a_batch_without_a_pair_leaves_the_weights_and_counts_its_prompts() -> None:
    online = OnlineDPO(TinyLM(), None, lambda pairs: [-1] * len(pairs), max_new_tokens=3)
    before = online.policy.table.detach().clone()
    metrics = online.train_step(PROMPTS)
    assert torch.equal(online.policy.table, before)
    assert (metrics["updates"], online.clock.samples, metrics["reward/told_apart"]) == (0, 3, 0.0)


@pytest.mark.parametrize("algorithm", [GRPO, RLOO])
def test_a_batch_is_the_same_however_prompts_are_cut_into_batches(algorithm: Any) -> None:
    made = algorithm(TinyLM(), **OPTIONS)
    whole = batch_of(made)
    for k in range(3):
        made.clock = Clock(samples=k, unit="samples")
        part = batch_of(made, PROMPTS[k : k + 1])
        rows = completions_of(whole)[4 * k : 4 * k + 4]
        assert all(map(torch.equal, completions_of(part), rows))


OTHERWISE: dict[Any, dict[str, Any]] = {
    GRPO: {
        "loss_type": "grpo",
        "clip_eps": 0.01,
        "clip_eps_high": 0.0,
        "kl_estimator": "k2",
        "kl_correction": False,
        "scale_rewards": "none",
        "temperature": 2.0,
        "top_k": 3,
        "min_p": 0.2,
        "max_grad_norm": 0.01,
        "mask_truncated": True,
        "correction": {"correction": "token_mask", "correction_max": 0.5},
        "aggregation": {"aggregation": "normalize_then_sum"},
    },
    RLOO: {
        "clip_eps": 0.01,
        "normalize_advantages": True,
        "temperature": 2.0,
        "top_p": 0.5,
        "mask_truncated": True,
    },
    DPO: {"loss_type": "ipo", "beta": 1.0, "label_smoothing": 0.2, "reference_free": True},
}
CHANGES = [(kind, key) for kind, options in OTHERWISE.items() for key in options]


def learned(kind: Any, options: dict[str, Any]) -> Tensor:
    """Return the weights after two batches; algorithms with epochs go through each batch twice."""
    if kind is DPO:
        made = DPO(TinyLM(0), TinyLM(1), learning_rate=0.05, seed=3, **options)
        for _ in range(2):
            made.train_step(PROMPTS, CHOSEN, REJECTED)
        return made.policy.table.detach()
    several = [low_tokens, lambda rows, prompts: [5.0 * float(row[0] == 2) for row in rows]]
    options = {
        "reward_fn": several,
        "learning_rate": 0.05,
        "n_epochs": 2,
        "kl_coef": 0.5,
        **options,
    }
    given = {**OPTIONS, **options}
    made = kind(TinyLM(0), TinyLM(1), **given)
    for _ in range(2):
        made.train_step(PROMPTS)
    return made.policy.table.detach()


@pytest.mark.parametrize(("kind", "key"), CHANGES, ids=lambda of: getattr(of, "__name__", of))
def test_every_option_of_a_text_algorithm_changes_the_learned_weights(kind: Any, key: str) -> None:
    same = learned(kind, {})
    assert torch.equal(same, learned(kind, {}))
    other = OTHERWISE[kind][key]
    options = other if isinstance(other, dict) else {key: other}
    assert not torch.equal(same, learned(kind, options))


def test_the_grpo_loss_equals_policy_loss_plus_weighted_kl() -> None:
    grpo = GRPO(TinyLM(0), TinyLM(1), **{**OPTIONS, "kl_coef": 0.3})
    metrics = grpo.train_step(PROMPTS)
    whole = metrics["loss/policy"] + 0.3 * metrics["kl"]
    assert metrics["loss"] == metrics["loss/total"] == pytest.approx(whole, rel=1e-5)
    assert metrics["kl"] > 0.01


def test_grpo_reports_zero_std_lengths_truncation_and_samples_of_a_batch() -> None:
    same = GRPO(TinyLM(0), None, **{**OPTIONS, "reward_fn": lambda rows, _: [1.0] * len(rows)})
    metrics = same.train_step(PROMPTS)
    assert metrics["reward/zero_std"] == 1.0
    metrics = (made := GRPO(TinyLM(0), None, **OPTIONS)).train_step(PROMPTS)
    batch = batch_of(GRPO(TinyLM(0), None, **OPTIONS))
    lengths = [len(row) for row in completions_of(batch)]
    assert metrics["completions/mean_length"] == pytest.approx(np.mean(lengths))
    cut = 1.0 - batch.generated_tokens.has_ended.double().mean()
    assert metrics["completions/clipped_ratio"] == pytest.approx(float(cut))
    assert metrics["samples"] == made.clock.samples == len(PROMPTS)
    worth = np.array(low_tokens(completions_of(batch), None)).reshape(len(PROMPTS), -1)
    alike = (worth == worth[:, :1]).all(1).mean()
    assert metrics["reward/zero_std"] == pytest.approx(alike)
