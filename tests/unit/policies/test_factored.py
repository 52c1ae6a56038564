"""Tests the joint distribution of several choices and a vector: sums over factors, and their gradients."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces
from helpers.factored_actions import Match
from torch import Tensor
from torch.distributions import Categorical, Normal

from rlox.algorithms import PPO
from rlox.errors import CheckpointError, ConfigError
from rlox.policies import DiscretePolicy, FactoredPolicy, MaskedFactoredPolicy
from rlox.policies.factored import FactoredHead

SHAPES = [((3, 2, 4), 2), ((3, 2, 4), 0), ((2, 2, 2), 1), ((5,), 0), ((1, 3), 1)]


def some(head: FactoredHead, n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns random outputs `[n, size]` and random actions."""
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn((n, head.size), generator=generator) * 2
    return outputs, head.sample(torch.zeros(n, head.size), generator)


def by_torch(
    head: FactoredHead, outputs: Tensor, actions: Tensor, masks: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sums log-probability and entropy of torch's distributions over factors; `masks` restrict choices."""
    log_prob, entropy = torch.zeros(len(outputs)), torch.zeros(len(outputs))
    at = 0
    for k, n in enumerate(head.choices):
        logits = outputs[:, at : at + n]
        if masks is not None:
            logits = logits.masked_fill(masks[:, at : at + n] == 0, -1e30)
        factor: Any = Categorical(logits=logits)
        log_prob = log_prob + factor.log_prob(actions[:, k].long())
        entropy = entropy + factor.entropy()
        at += n
    if head.log_std is not None:
        numbers: Any = Normal(outputs[:, at:], head.log_std.exp())
        log_prob = log_prob + numbers.log_prob(actions[:, len(head.choices) :]).sum(-1)
        entropy = entropy + numbers.entropy().sum(-1)
    return log_prob, entropy


def test_log_probability_and_entropy_are_sums_over_the_factors_by_hand() -> None:
    """Softmaxes (3/4, 1/4) and (1/4, 1/4, 1/2), and a normal number of mean 1 and deviation 2."""
    head = FactoredHead((2, 3), 1, log_std_init=math.log(2))
    outputs = torch.tensor([[math.log(3), 0.0, 0.0, 0.0, math.log(2), 1.0]])
    log_prob, entropy = head.score(outputs, torch.tensor([[0.0, 2.0, 3.0]]))
    normal = math.log(2) + 0.5 * math.log(2 * math.pi)
    assert log_prob.item() == pytest.approx(math.log(3 / 4) + math.log(1 / 2) - 0.5 - normal)
    choices = -0.75 * math.log(0.75) - 0.25 * math.log(0.25) + 1.5 * math.log(2)
    assert entropy.item() == pytest.approx(choices + 0.5 + normal)


@pytest.mark.parametrize(("choices", "vector"), SHAPES)
def test_log_probs_and_entropies_equal_torchs_distributions(choices: Any, vector: int) -> None:
    head = FactoredHead(choices, vector, log_std_init=-0.3)
    outputs, actions = some(head, 64)
    assert actions.shape == (64, len(choices) + vector)
    assert actions.dtype == (torch.float32 if vector else torch.int64)
    torch.testing.assert_close(head.score(outputs, actions), by_torch(head, outputs, actions))


def test_a_single_choice_is_scored_as_a_discrete_one() -> None:
    torch.manual_seed(1)
    one, other = FactoredPolicy(3, (4,)), DiscretePolicy(3, 4)
    other.load_state_dict(one.state_dict(), strict=False)
    obs = torch.randn(8, 3)
    actions = other.mode(obs)
    assert torch.equal(one.mode(obs).squeeze(-1), actions)
    torch.testing.assert_close(
        one.evaluate_actions(obs, actions.unsqueeze(-1)), other.evaluate_actions(obs, actions)
    )


def test_sampled_factors_are_independent_and_follow_their_probabilities() -> None:
    """With 20,000 draws a frequency has deviation 0.0035 at most, so 0.015 is more than four deviations."""
    head = FactoredHead((2, 3), 1, log_std_init=-1.0)
    outputs = torch.tensor([[0.7, 0.0, 0.0, 1.0, -1.0, 3.0]]).expand(20_000, -1)
    explored = head.sampler(1, 20_000, torch.Generator().manual_seed(3))(outputs, 0)
    sampled = head.sample(outputs, torch.Generator().manual_seed(4))
    first, second = torch.softmax(outputs[0, :2], -1), torch.softmax(outputs[0, 2:5], -1)
    for actions in (explored, sampled):
        pairs = (actions[:, 0] * 3 + actions[:, 1]).long().bincount(minlength=6) / 20_000
        torch.testing.assert_close(pairs, torch.outer(first, second).flatten(), atol=0.015, rtol=0)
        assert actions[:, 2].mean().item() == pytest.approx(3.0, abs=0.015)
        assert actions[:, 2].std().item() == pytest.approx(math.exp(-1.0), abs=0.015)


def test_factored_exploration_depends_on_the_seed_and_differs_between_steps() -> None:
    policy = FactoredPolicy(3, (4, 2), 1)
    obs = torch.zeros(32, 3)

    def explored(seed: int) -> list[Tensor]:
        sample = policy.sampler(3, 32, torch.Generator().manual_seed(seed))
        with torch.inference_mode():
            return [sample(obs, t) for t in range(3)]

    once, again, other = explored(7), explored(7), explored(8)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not torch.equal(once[0], once[1])
    assert not torch.equal(once[0], other[0])


@pytest.mark.parametrize("said", [-torch.inf, torch.nan, torch.finfo(torch.float32).min])
def test_factored_heads_give_valid_choices_even_for_nan_or_infinite_outputs(said: float) -> None:
    head = FactoredHead((1, 2, 5))
    outputs = torch.full((4, 8), said)
    assert (head.mode(outputs) < torch.tensor([1, 2, 5])).all()
    generator = torch.Generator().manual_seed(0)
    assert (head.sample(outputs, generator) < torch.tensor([1, 2, 5])).all()


def test_weights_of_other_choices_are_refused_where_their_shapes_are_the_same(
    tmp_path: Path,
) -> None:
    """An actor for choices among 3 and 2 has as many outputs as one for choices among 2 and 3."""
    options: dict[str, Any] = {"env_id": "MatchMultiDiscrete-v0", "n_envs": 2, "n_steps": 8}
    PPO(**options).save(tmp_path / "saved")

    def turned() -> Match:
        env = Match("MultiDiscrete")
        env.action_space = spaces.MultiDiscrete([2, 3])
        return env

    told = r"its actions are choices among \[3, 2\], those of this policy are among \[2, 3\]; choose an env"
    with pytest.raises(CheckpointError, match=f"does not fit ppo on .*{told}"):
        PPO.from_checkpoint(tmp_path / "saved", env_id=turned)
    told = r"learned with actions MultiDiscrete\(\[3, 2\]\), but actions here are MultiDiscrete\(\[2, 3\]\)"
    with pytest.raises(ConfigError, match=told):
        PPO(turned, n_envs=2, n_steps=8, init_from=str(tmp_path / "saved"))
    assert sorted(FactoredHead((2, 3), 1).state_dict()) == ["counts", "log_std"]


@pytest.mark.parametrize(("choices", "vector"), SHAPES)
def test_each_masked_factor_is_a_distribution_over_its_allowed_choices(choices: Any, vector: int) -> None:
    torch.manual_seed(1)
    policy = MaskedFactoredPolicy(3, choices, vector, (8,), ortho_init=False)
    head, generator = policy.head, torch.Generator().manual_seed(5)
    allowed = head.sample(torch.zeros(64, head.size), generator)  # at least one choice of each factor
    masks = (torch.rand((64, head.n_logits), generator=generator) < 0.5).float()
    wide = torch.zeros(64, len(choices), head.max_options).scatter_(-1, head.choice_index(allowed), 1.0)
    masks = torch.maximum(masks, wide.flatten(1)[:, head.places])
    obs = torch.cat([torch.randn(64, 3), masks], -1)
    outputs = policy.actor(obs[:, :3])
    torch.testing.assert_close(
        policy.evaluate_actions(obs, allowed)[:2], by_torch(head, outputs, allowed, masks)
    )
    assert torch.equal(policy.get_value(obs), policy.critic(obs[:, :3]).squeeze(-1))
    sample = policy.sampler(1, 64, generator)
    with torch.inference_mode():
        taken = [sample(obs, 0), policy.sample(obs, generator), policy.mode(obs)]
    for actions in taken:
        wide = torch.zeros_like(wide).scatter_(-1, head.choice_index(actions), 1.0)
        assert (wide.flatten(1)[:, head.places] <= masks).all()


def test_masked_choices_give_their_output_weights_no_gradient() -> None:
    policy = MaskedFactoredPolicy(1, (2, 2), 0, (4,), ortho_init=False)
    obs = torch.tensor([[0.3, 1.0, 0.0, 1.0, 1.0]]).expand(8, -1)  # the first choice allows only 0
    log_probs, entropy, _ = policy.evaluate_actions(obs, torch.zeros(8, 2, dtype=torch.int64))
    (log_probs + entropy).sum().backward()
    last: Any = policy.actor[-1]
    assert not last.weight.grad[:2].any()
    assert last.weight.grad[2:].any()
