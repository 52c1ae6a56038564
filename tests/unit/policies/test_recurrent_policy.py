"""Tests recurrent actor-critics: the state of each part, and which loss trains which part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal

from rlox.networks.recurrent import split_sequences
from rlox.policies.heads import CategoricalHead, GaussianHead, Head
from rlox.policies.recurrent import RecurrentActorCritic

T, N, OBS = 6, 3, 2
CRITICS = ["own", "shared", "none"]


def policy(critic: str = "own", head: Head | None = None, **options: Any) -> RecurrentActorCritic:
    made = RecurrentActorCritic(OBS, head or CategoricalHead(3), "lstm", 4, critic=critic, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
    return made


def sequences(made: RecurrentActorCritic) -> tuple[Tensor, Tensor, Any]:
    is_first, generator = np.zeros((T, N), np.bool_), torch.Generator().manual_seed(2)
    is_first[3, 0] = is_first[5, 2] = True
    obs = torch.randn(T * N, OBS, generator=generator)
    return obs, torch.randn(N, made.state_size, generator=generator), split_sequences(is_first)


@pytest.mark.parametrize("critic", CRITICS)
def test_replaying_a_sequence_gives_the_outputs_of_acting_step_by_step(critic: str) -> None:
    made = policy(critic)
    obs, state, _ = sequences(made)
    said = made.forward_sequences(obs, state, split_sequences(np.zeros((T, N), np.bool_)))
    acting = state[:, : made.actor_state_size]
    for t, row in enumerate(obs.view(T, N, OBS)):
        outputs, acting = made.act(row, acting)
        torch.testing.assert_close(said.outputs.view(T, N, -1)[t], outputs)
    torch.testing.assert_close(said.end_states[:, : made.actor_state_size], acting)
    torch.testing.assert_close(said.values.view(T, N)[0], made.get_value(obs[:N], state))


def test_get_value_continues_from_the_end_state_of_a_replay() -> None:
    made = policy("own")
    obs, state, _ = sequences(made)
    part = made.forward_sequences(obs[:-N], state, split_sequences(np.zeros((T - 1, N), np.bool_)))
    whole = made.forward_sequences(obs, state, split_sequences(np.zeros((T, N), np.bool_)))
    torch.testing.assert_close(made.get_value(obs[-N:], part.end_states), whole.values[-N:])


@pytest.mark.parametrize(
    ("critic", "trained", "left"),
    [
        ("own", {"critic_rnn", "critic"}, {"actor_rnn", "actor"}),
        ("shared", {"critic"}, {"actor_rnn", "actor"}),
        ("none", {"critic"}, {"actor_rnn", "actor"}),
    ],
)
def test_the_value_trains_the_critics_own_parts_only(critic: str, trained: set[str], left: set[str]) -> None:
    made = policy(critic)
    obs, state, pieces = sequences(made)
    made.forward_sequences(obs, state, pieces).values.square().sum().backward()
    reached = {n.split(".")[0] for n, p in made.named_parameters() if p.grad is not None}
    assert reached == trained
    assert {name.split(".")[0] for name, _ in made.named_parameters()} == trained | left


@pytest.mark.parametrize(("critic", "depends"), [("own", True), ("shared", True), ("none", False)])
def test_a_critic_without_a_memory_sees_observations_only(critic: str, depends: bool) -> None:
    made = policy(critic)
    obs, state, _ = sequences(made)
    values = [made.get_value(obs[:N], s) for s in (state, torch.zeros_like(state))]
    assert torch.equal(*values) != depends


@pytest.mark.parametrize(("critic", "parts"), [("own", 2), ("shared", 1), ("none", 1)])
def test_a_recurrent_state_holds_the_actors_part_before_the_critics(critic: str, parts: int) -> None:
    made = policy(critic)
    assert (made.actor_state_size, made.state_size) == (
        8,
        8 * parts,
    )  # 4 hidden numbers and 4 cells
    obs, state, _ = sequences(made)
    changed = state.clone()
    changed[:, 8:] += 1
    acted = [made.act(obs[:N], s[:, :8])[0] for s in (state, changed)]
    assert torch.equal(*acted)


def test_the_mlps_come_behind_the_recurrence_with_their_own_widths() -> None:
    made = policy("none", net_arch=(7, 6), critic_net_arch=(5,))
    assert [tuple(p.shape) for n, p in made.actor.named_parameters() if "weight" in n] == [
        (7, 4),
        (6, 7),
        (3, 6),
    ]
    assert [tuple(p.shape) for n, p in made.critic.named_parameters() if "weight" in n] == [
        (5, OBS),
        (1, 5),
    ]


def test_initial_weights_are_orthogonal_with_the_gains_of_ppo() -> None:
    made = RecurrentActorCritic(OBS, CategoricalHead(3), "lstm", 8)
    for layer, gain in ((made.actor[0], 2**0.5), (made.actor[-1], 0.01), (made.critic[-1], 1.0)):
        rows = layer.weight if layer.weight.shape[0] <= layer.weight.shape[1] else layer.weight.T
        torch.testing.assert_close(rows @ rows.T, gain**2 * torch.eye(len(rows)), atol=1e-5, rtol=0)
    for rnn in (made.actor_rnn, made.critic_rnn):
        assert rnn is not None
        weight = rnn.rnn.weight_hh_l0
        torch.testing.assert_close(weight.T @ weight, torch.eye(8), atol=1e-5, rtol=0)
        assert not rnn.rnn.bias_ih_l0.any()


def test_choices_have_the_probabilities_and_entropy_of_a_softmax() -> None:
    head, generator = CategoricalHead(4), torch.Generator().manual_seed(0)
    logits = torch.randn(7, 4, generator=generator)
    actions = torch.randint(4, (7,), generator=generator)
    log_prob, entropy = head.score(logits, actions)
    reference = Categorical(logits=logits)
    torch.testing.assert_close(log_prob, reference.log_prob(actions))
    torch.testing.assert_close(entropy, reference.entropy())
    assert torch.equal(head.mode(logits), logits.argmax(-1))


def test_vectors_have_the_density_and_entropy_of_independent_normals() -> None:
    head, generator = GaussianHead(2, -0.5), torch.Generator().manual_seed(0)
    means, actions = torch.randn(2, 7, 2, generator=generator)
    log_prob, entropy = head.score(means, actions)
    reference = Normal(means, torch.full((2,), -0.5).exp())
    torch.testing.assert_close(log_prob, reference.log_prob(actions).sum(-1))
    torch.testing.assert_close(entropy, reference.entropy().sum(-1))
    assert torch.equal(head.mode(means), means)


@pytest.mark.parametrize("how", ["sample", "sampler"])
def test_actions_sampled_from_recurrent_heads_follow_their_distribution(how: str) -> None:
    """20,000 draws; frequencies within 5 standard deviations, moments within 0.05."""
    rows, generator = 20_000, torch.Generator().manual_seed(0)

    def drawn(head: Head, outputs: Tensor) -> Tensor:
        if how == "sample":
            return head.sample(outputs, generator)
        return head.sampler(1, rows, generator)(outputs, 0)

    logits = torch.tensor([0.0, 1.0, -1.0])
    p = torch.softmax(logits, 0)
    found = torch.bincount(drawn(CategoricalHead(3), logits.expand(rows, 3)), minlength=3) / rows
    assert torch.all((found - p).abs() < 5 * (p * (1 - p) / rows).sqrt())
    means = torch.tensor([1.0, -2.0])
    vectors = drawn(GaussianHead(2, -0.5), means.expand(rows, 2))
    torch.testing.assert_close(vectors.mean(0), means, atol=0.05, rtol=0)
    torch.testing.assert_close(vectors.std(0), torch.full((2,), -0.5).exp(), atol=0.05, rtol=0)
