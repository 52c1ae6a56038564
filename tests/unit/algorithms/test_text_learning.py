"""Tests that text algorithms learn rewarded tokens, and only these, where the best policy is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import DPO, GRPO, RLOO, SFT, OnlineDPO

PROMPTS = torch.tensor([[3], [4], [5], [6]])


class Words(nn.Module):
    """A model whose logits depend on the last token alone; at first all logits are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(9, 9))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids]


def low(completions: list[Tensor], prompts: Any) -> list[float]:
    """Return the fraction of each completion's tokens below 3; it is a third for random tokens."""
    return [float((c < 3).double().mean()) for c in completions]


def high(completions: list[Tensor], prompts: Any) -> list[float]:
    return [-worth for worth in low(completions, prompts)]


ALL: dict[str, Any] = {"max_new_tokens": 3, "learning_rate": 0.05, "seed": 1}
WRITERS = {
    "grpo": lambda paid, **more: GRPO(Words(), None, paid, kl_coef=0.0, group_size=8, **ALL, **more),
    "dr. grpo": lambda paid, **more: GRPO(
        Words(), None, paid, kl_coef=0.0, group_size=8, loss_type="dr_grpo", scale_rewards="none",
        **ALL, **more,
    ),
    "gspo, several steps": lambda paid, **more: GRPO(
        Words(), None, paid, kl_coef=0.0, group_size=8, loss_type="gspo", n_epochs=2, **ALL, **more
    ),
    "rloo": lambda paid, **more: RLOO(Words(), None, paid, kl_coef=0.0, group_size=8, **ALL, **more),
    "online_dpo": lambda paid, **more: OnlineDPO(
        Words(), None, reward_fn=paid, beta=0.05, **{**ALL, "learning_rate": 0.15}, **more
    ),
}  # fmt: skip


def paid_after(algorithm: Any, steps: int = 60) -> float:
    """Train, and return the fraction of low tokens in the sampled completions."""
    for _ in range(steps):
        algorithm.train_step(PROMPTS)
    return float(np.mean(low(algorithm.generate(PROMPTS.repeat(50, 1), deterministic=False), None)))


@pytest.mark.parametrize("name", WRITERS)
def test_text_algorithms_make_rewarded_tokens_likely_and_punished_ones_unlikely(name: str) -> None:
    assert paid_after(WRITERS[name](low)) > 0.85
    assert paid_after(WRITERS[name](high)) < 0.1


def kl_of(model: Any) -> float:
    """Return the KL divergence from the uniform distribution per token, as a mean over the prompts."""
    said = model.policy.table.detach()[PROMPTS[:, 0]].log_softmax(-1)
    return float((said.exp() * (said + np.log(9.0))).sum(-1).mean())


def test_the_kl_penalty_keeps_the_model_near_its_reference() -> None:
    held = GRPO(Words(), None, low, kl_coef=3.0, group_size=8, **ALL)
    free = GRPO(Words(), None, low, kl_coef=0.0, group_size=8, **ALL)
    paid = [paid_after(algorithm) for algorithm in (held, free)]
    assert kl_of(held) < 0.15 < 0.7 < kl_of(free)
    assert 1.0 / 3.0 + 0.03 < paid[0] < paid[1]


def test_sft_says_the_answers_and_dpo_prefers_what_was_chosen() -> None:
    answers = torch.tensor([[0, 1], [1, 2], [2, 0], [0, 2]])
    sft = SFT(Words(), learning_rate=0.2)
    for _ in range(60):
        sft.train_step(PROMPTS, answers)
    said = torch.stack(sft.generate(PROMPTS))[:, :1]
    assert torch.equal(said, answers[:, :1])
    dpo = DPO(Words(), beta=0.1, learning_rate=0.1)
    rejected = answers.flip(1)
    for _ in range(40):
        dpo.train_step(PROMPTS, answers, rejected)
    metrics = dpo.compute_loss(PROMPTS, answers, rejected)[1]
    assert metrics["accuracy"] == 1.0
    assert metrics["margin"] > 0.5
    backwards = dpo.compute_loss(PROMPTS, rejected, answers)[1]
    assert backwards["accuracy"] == 0.0
