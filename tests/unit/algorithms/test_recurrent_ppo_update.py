"""Tests that recurrent PPO's update replays whole sequences from the states with which they began."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from rlox.algorithms import RecurrentPPO
from rlox.algorithms.recurrent_ppo import SequenceMinibatch, sequence_minibatches
from rlox.losses import standardize
from rlox.types import Clock, Rollout

SMALL = {"n_envs": 6, "seed": 3, "n_steps": 20, "lstm_hidden_size": 8, "net_arch": (8,)}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": {"env_id": "CartPole-v1"},
    "gru, shared": {
        "env_id": "CartPole-v1",
        "rnn": "gru",
        "shared_lstm": True,
        "enable_critic_lstm": False,
    },
    "two layers, box": {"env_id": "Pendulum-v1", "n_lstm_layers": 2, "normalize_obs": True},
    "critic without a memory": {"env_id": "CartPole-v1", "enable_critic_lstm": False},
}


def made(kind: str = "lstm", **options: Any) -> RecurrentPPO:
    """Return a policy far from its initial weights, so that its memory affects its actions."""
    algorithm = RecurrentPPO(**{**SMALL, "batch_size": 40, **KINDS[kind], **options})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return algorithm


def rollout_of(algorithm: RecurrentPPO, number: int = 2) -> Rollout:
    """Return the rollout of that number; later ones begin in mid-episode with nonzero states."""
    for _ in range(number):
        rollout = algorithm.source.next(Clock())[0]
    assert rollout.extras["is_first"].any() or algorithm.env_id == "Pendulum-v1"
    return rollout


def shuffled(rollout: Rollout, seed: int) -> Tensor:
    """Return a permutation of the environments for this seed."""
    return torch.randperm(rollout.n_envs, generator=torch.Generator().manual_seed(seed))


def furthest_ratio(algorithm: RecurrentPPO, rollout: Rollout) -> float:
    """Return how far ratios differ from 1, or values from stored ones, when the acting policy replays."""
    far = 0.0
    for minibatch in sequence_minibatches(rollout, 40, shuffled(rollout, 0)):
        with torch.no_grad():
            log_probs, _, values = algorithm.learner._evaluate(minibatch)
        far = max(far, float(((log_probs - minibatch.log_probs).exp() - 1).abs().max()))
        far = max(far, float((values - minibatch.values).abs().max()))
    return far


@pytest.mark.parametrize("kind", KINDS)
def test_replaying_a_rollout_gives_ratio_one_and_the_same_values_everywhere(kind: str) -> None:
    algorithm = made(kind)
    for number in (1, 1, 1):
        assert furthest_ratio(algorithm, rollout_of(algorithm, number)) < 1e-5


def begun(rollout: Rollout) -> Tensor:
    assert rollout.first_state is not None
    return rollout.first_state


LEAKS: dict[str, Callable[[Rollout], Rollout]] = {
    "a state goes on where an episode begins": lambda r: replace(
        r, extras={"is_first": torch.zeros_like(r.extras["is_first"])}
    ),
    "the state of another environment": lambda r: replace(r, first_state=begun(r).roll(1, 0)),
    "zeros in place of the stored state": lambda r: replace(r, first_state=begun(r) * 0),
    "episodes that begin a row late": lambda r: replace(
        r, extras={"is_first": r.extras["is_first"].roll(r.n_envs, 0)}
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_replaying_a_wrong_state_changes_the_ratio(leak: str) -> None:
    algorithm = made()
    rollout = rollout_of(algorithm)
    assert furthest_ratio(algorithm, LEAKS[leak](rollout)) > 1e-2


@pytest.mark.parametrize("kind", KINDS)
def test_one_minibatch_of_one_epoch_reports_no_kl_and_no_clipping(kind: str) -> None:
    algorithm = made(kind, n_epochs=1, batch_size=120)
    metrics = algorithm.learner.update(rollout_of(algorithm), Clock()).metrics
    assert metrics["policy/approx_kl"] == pytest.approx(0.0, abs=1e-7)
    assert metrics["policy/clip_fraction"] == 0.0


def evaluated(algorithm: RecurrentPPO, minibatch: SequenceMinibatch) -> Any:
    """Evaluate the actions with gradients to all parameters and inputs."""
    return algorithm.policy.evaluate_actions(
        minibatch.obs, minibatch.actions, minibatch.state, minibatch.subsequences
    )


def gradient(algorithm: RecurrentPPO, minibatch: SequenceMinibatch) -> tuple[float, Tensor]:
    terms = algorithm.learner._terms(minibatch)
    algorithm.learner.optimizer.backward(terms.total, None)
    parts = [parameter.grad.flatten().clone() for parameter in algorithm.policy.parameters()]
    return float(terms.total.detach()), torch.cat(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_sequences_changes_neither_loss_nor_gradient(kind: str) -> None:
    algorithm = made(kind, ent_coef=0.01)
    rollout = rollout_of(algorithm)
    found = [
        gradient(algorithm, *sequence_minibatches(rollout, 120, shuffled(rollout, seed))) for seed in (0, 1)
    ]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_gradient_is_that_of_a2c_through_single_steps(kind: str) -> None:
    """The expected gradient uses the loss of `test_ppo_update.py` and a Python loop over rows."""
    algorithm = made(kind, ent_coef=0.02, vf_coef=0.3)
    rollout, policy = rollout_of(algorithm), algorithm.policy
    (minibatch,) = sequence_minibatches(rollout, 120, shuffled(rollout, 0))
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))

    def grid(column: Tensor) -> Tensor:
        return column.view(20, 6, *column.shape[1:])[:, order]

    assert rollout.first_state is not None
    state, outputs, values = rollout.first_state[order], [], []
    for obs, is_first in zip(grid(rollout.obs), grid(rollout.extras["is_first"]), strict=True):
        state = state * ~is_first[:, None]
        values.append(policy.get_value(obs, state))
        said, after = policy.act(obs, state[:, : policy.actor_state_size])
        outputs.append(said)
        if policy.critic_rnn is not None:
            critic = policy.critic_rnn.step(obs, state[:, policy.actor_state_size :])[1]
            after = torch.cat([after, critic], -1)
        state = after
    seen_values = torch.cat(values)
    if kind == "gru, shared":  # only the actor trains the shared layer
        seen_values = evaluated(algorithm, minibatch)[2]
    log_prob, entropy = policy.head.score(torch.cat(outputs), grid(rollout.actions).flatten(0, 1))
    advantages = standardize(grid(rollout.advantages).flatten())
    returns = grid(rollout.returns).flatten()
    loss = (
        -(advantages * log_prob).mean()
        + 0.3 * (seen_values - returns).square().mean()
        - 0.02 * entropy.mean()
    )
    parts = torch.autograd.grad(loss, list(policy.parameters()))
    expected = torch.cat([part.flatten() for part in parts])
    torch.testing.assert_close(gradient(algorithm, minibatch)[1], expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("batch_size", "sizes"),
    [(40, [2, 2, 2]), (80, [4, 2]), (59, [2] * 3), (1, [1] * 6), (999, [6])],
)
def test_minibatches_are_whole_sequences_and_keep_the_remainder(batch_size: int, sizes: list[int]) -> None:
    algorithm = made(n_epochs=1, batch_size=batch_size)
    rollout = rollout_of(algorithm)
    marked = replace(rollout, first_state=torch.arange(6.0)[:, None])
    found = list(sequence_minibatches(marked, batch_size, shuffled(marked, 0)))
    assert [len(m.state) for m in found] == sizes
    assert [len(m.returns) for m in found] == [20 * n for n in sizes]
    assert sorted(torch.cat([m.state for m in found]).flatten().tolist()) == [0, 1, 2, 3, 4, 5]
    assert algorithm.learner.update(rollout, Clock()).samples == 120


def test_a_sequence_keeps_the_rows_and_state_of_one_environment_in_order() -> None:
    marked = torch.arange(6.0)[:, None]
    rollout = replace(rollout_of(made()), first_state=marked)
    for minibatch in sequence_minibatches(rollout, 40, shuffled(rollout, 1)):
        for place, n in enumerate(minibatch.state.flatten().int().tolist()):
            for name in ("obs", "actions", "log_probs", "values", "advantages", "returns"):
                ours = getattr(minibatch, name)[place::2]
                assert torch.equal(ours, getattr(rollout, name)[n::6]), name
            begins = rollout.extras["is_first"].view(20, 6)[1:, n].sum()
            assert int((minibatch.subsequences.envs == place).sum()) == int(begins) + 1


def test_every_epoch_shuffles_the_sequences_anew() -> None:
    algorithm = made(n_epochs=4)
    rollout, learner, seen = rollout_of(algorithm), algorithm.learner, []
    original = learner._evaluate

    def noted(minibatch: SequenceMinibatch) -> Any:
        seen.append(float(minibatch.returns[0]))
        return original(minibatch)

    learner._evaluate = noted
    learner.update(rollout, Clock())
    epochs = {tuple(seen[3 * k : 3 * k + 3]) for k in range(4)}
    assert len(seen) == 12
    assert len(epochs) > 1


def with_garbage(rollout: Rollout, valid: Tensor) -> Rollout:
    """Mark rows as invalid, as no transitions, and put nonsense into their loss columns."""
    names = ("log_probs", "values", "advantages", "returns")
    columns = {n: torch.where(valid, getattr(rollout, n), torch.tensor(1e6)) for n in names}
    return replace(rollout, valid=valid, **columns)


def test_the_loss_and_the_advantages_are_of_valid_rows_only() -> None:
    algorithm = made()
    rollout = rollout_of(algorithm)
    valid = torch.ones(120, dtype=torch.bool)
    valid[[7, 30, 31, 119]] = False
    (minibatch,) = sequence_minibatches(with_garbage(rollout, valid), 120, shuffled(rollout, 0))
    assert len(minibatch.obs) == 120
    assert len(minibatch.returns) == 116
    assert sorted(minibatch.returns.tolist()) == sorted(rollout.returns[valid].tolist())
    with torch.no_grad():
        terms = algorithm.learner._terms(minibatch)
    assert float(terms.approx_kl) == pytest.approx(0.0, abs=1e-6)
    # with ratio 1 the loss of the policy is minus the mean of standardised advantages
    assert float(terms.policy) == pytest.approx(0.0, abs=1e-5)
    error = (rollout.values - rollout.returns)[valid].square().mean()
    assert float(terms.value) == pytest.approx(float(error), rel=1e-4)


def test_a_minibatch_without_a_valid_row_is_left_out() -> None:
    algorithm = made(n_epochs=1, batch_size=20)
    rollout = rollout_of(algorithm)
    valid = torch.ones(20, 6, dtype=torch.bool)
    valid[:, [1, 4]] = False
    whole = with_garbage(rollout, valid.flatten())
    assert [len(m.returns) for m in sequence_minibatches(whole, 20, shuffled(whole, 0))] == [20] * 4
    assert algorithm.learner.update(whole, Clock()).samples == 80


def test_no_sequence_reaches_the_gradient_of_another() -> None:
    """The loss of one environment's rows does not depend on another environment's observations."""
    algorithm = made(normalize_advantages=False)
    rollout = rollout_of(algorithm)
    obs = rollout.obs.clone()
    obs.view(20, 6, -1)[:, 2] += 5
    others = torch.ones(20, 6, dtype=torch.bool)
    others[:, 2] = False
    losses = []
    for seen in (rollout.obs, obs):
        changed = replace(rollout, obs=seen, valid=others.flatten())
        (minibatch,) = sequence_minibatches(changed, 120, shuffled(changed, 0))
        losses.append(gradient(algorithm, minibatch))
    assert losses[0][0] == losses[1][0]
    assert torch.equal(losses[0][1], losses[1][1])


def test_the_memory_is_trained_through_time() -> None:
    """The gradient of the last row's log-probability reaches the observation of the first row."""
    algorithm = made()
    rollout = rollout_of(algorithm, 1)
    no = torch.zeros_like(rollout.extras["is_first"])
    whole = replace(rollout, extras={"is_first": no})
    (minibatch,) = sequence_minibatches(whole, 120, shuffled(whole, 0))
    obs = minibatch.obs.clone().requires_grad_()
    log_probs, _, _ = evaluated(algorithm, minibatch._replace(obs=obs))
    (gradient_of_obs,) = torch.autograd.grad(log_probs.view(20, 6)[-1].sum(), obs)
    assert gradient_of_obs.view(20, 6, 4)[0].abs().min() > 0


def test_recurrent_ppo_stops_its_epochs_early_at_target_kl() -> None:
    algorithm = made(learning_rate=0.05, target_kl=0.001)
    update = algorithm.learner.update(rollout_of(algorithm), Clock())
    assert update.metrics["train/epochs"] < 10
    assert update.samples < 1200
    assert algorithm.learner.optimizer.steps == update.samples // 40


def test_an_update_moves_every_parameter() -> None:
    algorithm = made()
    before = copy.deepcopy(algorithm.policy.state_dict())
    algorithm.learner.update(rollout_of(algorithm), Clock())
    same = [n for n, p in algorithm.policy.state_dict().items() if torch.equal(p, before[n])]
    assert same == []
