"""Tests of PQN: its lambda-returns, exploration, network and update."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers import masked_envs
from torch import Tensor, nn

from rlox.algorithms import PQN
from rlox.configs import PQNConfig, make
from rlox.errors import ConfigError
from rlox.export import export_policy
from rlox.types import Clock, Rollout

SMALL: dict[str, Any] = {"n_envs": 3, "n_steps": 40, "batch_size": 30, "seed": 5, "net_arch": (16, 12)}


def short_cartpole() -> gym.Env[Any, Any]:
    """CartPole with a time limit that some random episodes reach and others do not."""
    return gym.make("CartPole-v1", max_episode_steps=14)


def pqn(env: Any = "CartPole-v1", **options: Any) -> PQN:
    return PQN(env, **{**SMALL, **options})


def collected(algorithm: PQN, elapsed: float = 0.0) -> Rollout:
    """Collect a rollout when the fraction `elapsed` of a run is over."""
    rollout, _ = algorithm.source.next(Clock(env_steps=int(1_000_000 * elapsed), horizon=1_000_000))
    assert isinstance(rollout, Rollout)
    return rollout


def max_q(algorithm: PQN, obs: Tensor) -> Tensor:
    with torch.no_grad():
        return algorithm.policy(obs).max(-1).values


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
def test_lambda_returns_equal_a_loop_over_steps_terminations_and_time_limits(q_lambda: float) -> None:
    algorithm = pqn(short_cartpole, gamma=0.9, q_lambda=q_lambda)
    rollout = collected(algorithm)
    assert rollout.final_obs is not None
    final = {
        (int(t), int(n)): obs
        for t, n, obs in zip(
            rollout.final_obs.steps, rollout.final_obs.envs, rollout.final_obs.obs, strict=True
        )
    }
    n_steps, n_envs = rollout.n_steps, rollout.n_envs
    obs = rollout.obs.reshape(n_steps, n_envs, -1)
    rewards, terminated, truncated = (
        column.reshape(n_steps, n_envs) for column in (rollout.rewards, rollout.terminated, rollout.truncated)
    )
    assert terminated[:-1].any()  # inside the rollout
    assert truncated[:-1].any()
    expected = torch.zeros(n_steps, n_envs)
    for n in range(n_envs):
        for t in reversed(range(n_steps)):
            if terminated[t, n]:
                expected[t, n] = rewards[t, n]
            elif truncated[t, n]:
                expected[t, n] = rewards[t, n] + 0.9 * max_q(algorithm, final[t, n])
            elif t == n_steps - 1:
                expected[t, n] = rewards[t, n] + 0.9 * max_q(algorithm, rollout.last_obs[n])
            else:
                after = (1 - q_lambda) * max_q(algorithm, obs[t + 1, n]) + q_lambda * expected[t + 1, n]
                expected[t, n] = rewards[t, n] + 0.9 * after
    torch.testing.assert_close(rollout.returns.reshape(n_steps, n_envs), expected, rtol=1e-5, atol=1e-5)


def test_an_update_equals_torchs_radam_on_squared_errors_of_the_taken_actions() -> None:
    algorithm = pqn(n_epochs=1, batch_size=1000, max_grad_norm=0.5, learning_rate=1e-2)
    policy = copy.deepcopy(algorithm.policy)
    reference = torch.optim.RAdam(policy.parameters(), lr=1e-2)
    for _ in range(8):
        rollout = collected(algorithm)
        q = policy(rollout.obs)[torch.arange(len(rollout)), rollout.actions]
        loss = (q - rollout.returns).square().mean()
        reference.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        reference.step()
        metrics = algorithm.learner.update(rollout, Clock()).metrics
        assert metrics["loss/q"] == pytest.approx(loss.item(), rel=1e-5)
        assert metrics["train/grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
        for ours, theirs in zip(algorithm.policy.parameters(), policy.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_each_epoch_learns_from_every_row_once_in_an_order_of_its_own() -> None:
    algorithm = pqn(n_epochs=3, batch_size=50)
    seen: list[Tensor] = []
    step = algorithm.learner._step
    algorithm.learner._step = lambda rows: [seen.append(rows.returns.clone()), step(rows)][1]
    rollout = collected(algorithm)
    update = algorithm.learner.update(rollout, Clock())
    assert [len(rows) for rows in seen] == [50, 50, 20] * 3
    epochs = torch.cat(seen).reshape(3, 120)
    assert all(torch.equal(epoch.sort().values, rollout.returns.sort().values) for epoch in epochs)
    assert not torch.equal(epochs[0], epochs[1])
    assert (update.count, update.samples) == (1, 360)


def test_the_learning_rate_falls_to_zero_over_the_run() -> None:
    algorithm = pqn(learning_rate=1e-3)
    rollout = collected(algorithm)
    rates = [
        algorithm.learner.update(rollout, Clock(env_steps=steps, horizon=1000)).metrics["train/learning_rate"]
        for steps in (0, 250, 1000)
    ]
    assert rates == pytest.approx([1e-3, 7.5e-4, 0.0])


def test_epsilon_falls_linearly_over_a_fraction_of_the_run() -> None:
    given = {"exploration_initial_eps": 0.9, "exploration_final_eps": 0.1, "exploration_fraction": 0.4}
    config = make(PQNConfig, given)
    expected = {0.0: 0.9, 0.1: 0.7, 0.2: 0.5, 0.4: 0.1, 0.7: 0.1, 1.0: 0.1}
    assert {elapsed: config.epsilon(elapsed) for elapsed in expected} == pytest.approx(expected)


def test_epsilon_falls_within_a_rollout_and_depends_on_the_clock_alone() -> None:
    algorithm = pqn(n_envs=2, n_steps=4, exploration_fraction=0.5, exploration_final_eps=0.0)
    collector, used = algorithm.collector, []
    make_sampler = collector._make_sampler

    def noted(policy: Any, epsilons: Any, generator: Any) -> Any:
        used.append(list(epsilons))
        return make_sampler(policy, epsilons, generator)

    collector._make_sampler = noted
    for steps in (16, 0, 16):
        algorithm.source.next(Clock(env_steps=steps, horizon=64))
        assert used[-1] == pytest.approx([1 - (steps + 2 * t) / 32 for t in range(4)])
    algorithm.policy.epsilon = 0.25
    collector.collect(algorithm.policy, 6)  # by a user, of any length
    assert used[-1] == [0.25] * 6


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_a_share_epsilon_of_the_actions_is_random_and_the_rest_greedy(epsilon: float) -> None:
    algorithm = pqn(n_envs=16, n_steps=250, exploration_initial_eps=epsilon, exploration_final_eps=epsilon)
    rollout = collected(algorithm)
    differs = rollout.actions != algorithm.policy.mode(rollout.obs)
    assert float(differs.float().mean()) == pytest.approx(epsilon / 2, abs=0.03)  # half of the random ones


def test_a_run_explores_less_and_less_and_logs_epsilon() -> None:
    algorithm = pqn(exploration_fraction=1.0, exploration_final_eps=0.2)
    epsilons: list[float] = []
    algorithm.fit(
        480, hooks=(lambda clock, progress, update: epsilons.append(update.metrics["policy/epsilon"]),)
    )
    assert epsilons == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_predictions_are_greedy_and_samples_have_the_final_epsilon() -> None:
    algorithm = pqn(exploration_final_eps=1.0)
    obs = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    best = algorithm.policy(torch.from_numpy(obs)).argmax(-1).numpy()
    assert np.array_equal(algorithm.predict(obs), best)
    assert 60 < (algorithm.predict(obs, deterministic=False) != best).sum() < 140


def test_only_allowed_actions_are_taken_and_valued() -> None:
    algorithm = pqn(masked_envs.BY_INFO, action_mask="info")
    rollout = collected(algorithm)
    masks = rollout.extras["action_mask"]
    assert not masks.all()
    assert masks.gather(1, rollout.actions[:, None]).all()
    with torch.no_grad():
        values = algorithm.policy.q(rollout.obs[:, : -masks.shape[1]])
    torch.testing.assert_close(rollout.values, values.masked_fill(~masks, -torch.inf).amax(-1))


def test_layer_normalisation_precedes_each_hidden_activation_and_begins_as_the_identity() -> None:
    net = pqn().policy.q
    kinds = [nn.Linear, nn.LayerNorm, nn.ReLU, nn.Linear, nn.LayerNorm, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in net] == kinds
    for norm in (net[1], net[4]):
        assert torch.equal(norm.weight, torch.ones_like(norm.weight))
        assert torch.equal(norm.bias, torch.zeros_like(norm.bias))


def test_other_spaces_policies_and_settings_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="pqn needs Discrete actions, Pendulum-v1 has Box"):
        pqn("Pendulum-v1")
    for key in ("clip_eps", "use_sde", "vf_coef", "ent_coef", "log_std_init", "gae_lambda", "policy"):
        with pytest.raises(ConfigError, match=key):
            make(PQNConfig, {key: 1})
    with pytest.raises(ConfigError, match="backend"):
        pqn(backend="native")
    with pytest.raises(ConfigError, match=r"n_steps or env\.n_envs"):
        pqn(n_steps=10**12)


def test_its_policy_is_not_exported(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="layer normalisation"):
        export_policy(pqn(), tmp_path / "policy")
