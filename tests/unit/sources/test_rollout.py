"""Tests what a rollout keeps besides its columns, and which rows a learner gets."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import ScriptedVecEnv, random_script
from helpers.oracles import advantages_by_definition
from helpers.policies import KnownCritic
from torch import Tensor

from rlox import compute_vtrace
from rlox.algorithms import A2C, PPO
from rlox.algorithms.a2c.learner import A2CLearner
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig
from rlox.errors import ShapeError
from rlox.rng import Streams
from rlox.sources.collector import Collector
from rlox.sources.rollout_collector import gae
from rlox.types import Clock, FinalObs, Rollout

T, N = 24, 5


def first_feature(obs: Tensor) -> Tensor:
    return obs[:, 0]


def gathered(script: tuple[Any, ...], config: EnvConfig | None = None) -> Rollout:
    """Collects the script as a rollout, whose values are the first feature of the observations."""
    collector = Collector(env=ScriptedVecEnv(*script), config=config)
    return collector.collect(KnownCritic(first_feature), len(script[2]))


def script_of(seed: int = 0, n_steps: int = T) -> tuple[Any, ...]:
    script = random_script(np.random.default_rng(seed), n_steps, N)
    script[3][2, 1], script[4][2, 1] = True, False  # at least one end of each kind, and one of both
    script[3][3, 2], script[4][3, 2] = False, True
    script[3][4, 3], script[4][4, 3] = True, True
    return script


def small(n: int = 10, **more: Any) -> Rollout:
    rows = torch.arange(n, dtype=torch.float32)
    names = (
        "actions", "log_probs", "values", "rewards", "next_values", "advantages", "returns",
    )  # fmt: skip
    columns: dict[str, Any] = {name: rows.clone() for name in names}
    return Rollout(
        obs=rows[:, None], terminated=rows > 5, truncated=rows > 7, last_obs=rows[:1, None],
        last_values=rows[:1], n_envs=1, **columns, **more,
    )  # fmt: skip


def test_a_rollout_keeps_the_observation_and_value_after_its_last_step() -> None:
    script = script_of()
    rollout = gathered(script)
    assert (rollout.n_steps, rollout.n_envs, len(rollout)) == (T, N, T * N)
    assert np.array_equal(rollout.last_obs, script[0][T])
    assert np.array_equal(rollout.last_values, script[0][T, :, 0])


def test_final_observations_are_a_table_in_the_order_of_the_steps() -> None:
    script = script_of()
    finals = gathered(script).final_obs
    assert finals is not None
    steps, envs = np.nonzero(script[3] | script[4])
    assert np.array_equal(finals.steps, steps)
    assert np.array_equal(finals.envs, envs)
    assert np.array_equal(finals.obs, script[1][steps, envs])


def test_next_observations_are_those_before_a_reset() -> None:
    script = script_of()
    observed, finals = script[0], script[1]
    is_end = (script[3] | script[4])[..., None]
    expected = np.where(is_end, finals, observed[1:])  # observed[t + 1] is after a reset where step t ended
    rollout = gathered(script)
    assert np.array_equal(rollout.next_obs(), expected.reshape(T * N, -1))
    assert np.array_equal(small().next_obs()[:, 0], [*range(1, 10), 0])


def test_final_observations_are_of_one_rollout_and_as_the_policy_sees_them() -> None:
    script = script_of(n_steps=2 * T)
    config = EnvConfig(normalize_obs=True)
    collector = Collector(env=ScriptedVecEnv(*script), config=config)
    collector.collect(KnownCritic(first_feature), T)
    rollout = collector.collect(KnownCritic(first_feature), T)
    finals = rollout.final_obs
    assert finals is not None
    assert len(finals.steps) == (script[3] | script[4])[T:].sum()
    cut = ~rollout.terminated.reshape(T, N)[finals.steps, finals.envs]
    seen = rollout.next_values.reshape(T, N)[finals.steps[cut], finals.envs[cut]]
    assert cut.any()
    assert torch.equal(finals.obs[cut, 0], seen)


def test_the_value_after_a_step_is_0_of_the_final_or_of_the_next_observation() -> None:
    obs, finals, rewards, terminated, truncated = script_of()
    expected = np.where(truncated, finals[:, :, 0], obs[1:, :, 0])
    expected = np.where(terminated, 0.0, expected)
    rollout = gathered((obs, finals, rewards, terminated, truncated))
    assert np.array_equal(rollout.next_values.reshape(T, N), expected)


def test_a_rollout_without_episode_ends_allocates_no_extra_columns() -> None:
    script = script_of()
    script[3][:], script[4][:] = False, False
    rollout = gathered(script)
    assert (rollout.final_obs, rollout.valid, dict(rollout.extras)) == (None, None, {})
    first = next(rollout.sample_minibatches(7, shuffle=False))
    assert rollout.rows().obs.data_ptr() == first.obs.data_ptr() == rollout.obs.data_ptr()


def test_a_learner_can_take_gradients_through_every_observation() -> None:
    rollout = gathered(script_of())
    assert rollout.final_obs is not None
    weight = torch.ones(2, requires_grad=True)
    for obs in (rollout.obs, rollout.last_obs, rollout.final_obs.obs):
        (gradient,) = torch.autograd.grad((obs @ weight).sum(), weight)
        assert torch.allclose(gradient, obs.sum(0), atol=1e-4)


def test_advantages_are_nan_until_an_estimator_writes_them_in_place() -> None:
    script = script_of(n_steps=2 * T)
    collector = Collector(env=ScriptedVecEnv(*script))
    for part in (0, T):
        rollout = collector.collect(KnownCritic(first_feature), T)
        assert rollout.advantages.isnan().all()
        assert rollout.returns.isnan().all()
        memory = rollout.advantages.data_ptr(), rollout.returns.data_ptr()
        advantages, returns = gae(rollout, 0.9, 0.8)
        assert (advantages.data_ptr(), returns.data_ptr()) == memory
        assert advantages is rollout.advantages
        obs, finals, rewards, terminated, truncated = (a[part : part + T] for a in script)
        after = np.where(truncated, finals[:, :, 0], script[0][part + 1 : part + T + 1, :, 0])
        expected = advantages_by_definition(rewards, obs[:, :, 0], after, terminated, truncated, 0.9, 0.8)
        assert advantages.numpy().reshape(T, N) == pytest.approx(expected, abs=1e-4)
        assert torch.allclose(returns, advantages + rollout.values, atol=1e-5)


def test_a_rollout_collector_adds_gae_to_the_plain_collector() -> None:
    script = script_of()
    ours = RolloutCollector(gamma=0.9, gae_lambda=0.8, env=ScriptedVecEnv(*script))
    rollout = ours.collect(KnownCritic(first_feature), T)
    bare = gathered(script)
    gae(bare, 0.9, 0.8)
    for name in ("obs", "values", "next_values", "advantages", "returns"):
        assert torch.equal(getattr(rollout, name), getattr(bare, name)), name


def test_a_rollout_has_what_v_trace_needs() -> None:
    """For the policy that acted, V-trace equals GAE with lambda 1 (Espeholt et al. 2018, remark 1)."""
    script = script_of()
    rollout = gathered(script)
    names = ("rewards", "values", "terminated", "truncated", "next_values")
    grid = {name: getattr(rollout, name).numpy().reshape(T, N) for name in names}
    targets, _ = compute_vtrace(np.zeros((T, N), np.float32), gamma=0.9, **grid)
    _, returns = gae(rollout, 0.9, 1.0)
    assert targets == pytest.approx(returns.numpy().reshape(T, N), abs=1e-4)


def next_step_rollout() -> tuple[Rollout, Rollout]:
    """Makes episodes of one environment, and the same ones of an engine that spends a step on each reset.

    That step takes the final observation as its state, ignores the action and gives no reward.
    """
    rng = np.random.default_rng(3)
    straight = small(12)
    for name in ("rewards", "values", "next_values", "log_probs"):
        getattr(straight, name).copy_(torch.from_numpy(rng.normal(size=12)))
    straight.terminated[:], straight.truncated[:] = False, False
    straight.terminated[4], straight.truncated[8] = True, True
    order = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11]
    columns = {
        f.name: getattr(straight, f.name)[order]
        for f in fields(Rollout)
        if isinstance(getattr(straight, f.name), Tensor) and not f.name.startswith("last")
    }
    valid = torch.ones(14, dtype=torch.bool)
    valid[[5, 10]] = False
    spent = replace(straight, **columns, valid=valid)
    for column in (spent.terminated, spent.truncated):
        column[~valid] = False
    spent.rewards[~valid], spent.values[~valid] = 0.0, 99.0
    return straight, spent


def test_rows_that_are_no_transitions_change_no_advantage() -> None:
    straight, spent = next_step_rollout()
    for rollout in (straight, spent):
        gae(rollout, 0.9, 0.8)
    assert spent.valid is not None
    assert torch.equal(spent.advantages[spent.valid], straight.advantages)
    assert torch.equal(spent.rows().returns, straight.returns)


@pytest.mark.parametrize("shuffle", [False, True])
def test_minibatches_have_each_valid_row_once_and_no_other(shuffle: bool) -> None:
    valid = torch.tensor([True, False, True, True, False, True, True, True, False, True])
    rollout = small(valid=valid, extras={"mask": torch.arange(10)[:, None] * torch.ones(1, 3)})
    generator = torch.Generator().manual_seed(1)
    batches = list(rollout.sample_minibatches(3, shuffle, generator))
    assert [len(b.obs) for b in batches] == [3, 3, 1]
    seen = torch.cat([b.returns for b in batches]).tolist()
    assert sorted(seen) == [0, 2, 3, 5, 6, 7, 9]
    assert (seen == sorted(seen)) is not shuffle
    for batch in batches:
        assert batch.extras.keys() == {"mask"}
        assert torch.equal(batch.extras["mask"], batch.returns[:, None].expand(-1, 3))
        assert all(torch.equal(column.flatten(), batch.returns) for column in batch[:-1])


def test_extras_go_with_their_rows_where_all_are_valid() -> None:
    rollout = small(extras={"state": torch.arange(10)})
    for batch in rollout.sample_minibatches(4):
        assert torch.equal(batch.extras["state"], batch.returns.long())
    assert rollout.rows().extras["state"].tolist() == list(range(10))


def test_a_rollout_without_any_valid_row_is_refused() -> None:
    rollout = small(valid=torch.zeros(10, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"none of the 10 rows of rollout 0 is valid.*; collect"):
        next(rollout.sample_minibatches(4))
    with pytest.raises(ShapeError, match="none of the 10 rows"):
        rollout.rows()


@pytest.mark.parametrize("facade", [PPO, A2C])
def test_an_update_is_that_of_the_valid_rows_alone(facade: Any) -> None:
    algorithm = facade("Pendulum-v1", n_envs=4, n_steps=16, seed=1, net_arch=[8])
    rollout = algorithm.collector.collect(algorithm.policy, 16)
    valid = torch.rand(64, generator=torch.Generator().manual_seed(0)) < 0.7
    names = [*rollout.rows()._fields[:-1], "rewards", "terminated", "truncated", "next_values"]
    alone = replace(rollout, **{name: getattr(rollout, name)[valid] for name in names})
    results = []
    for batch in (replace(rollout, valid=valid), alone):
        policy, config = copy.deepcopy(algorithm.policy), algorithm.config.algo
        learner = (
            PPOLearner(policy, replace(config, batch_size=16), Streams(0))
            if facade is PPO
            else A2CLearner(policy, config)
        )
        update = learner.update(batch, Clock())
        results.append((update, torch.cat([p.detach().flatten() for p in policy.parameters()])))
    (ours, weights), (expected, theirs) = results
    assert torch.equal(weights, theirs)
    assert ours == expected
    assert not torch.equal(weights, torch.cat([p.detach().flatten() for p in algorithm.policy.parameters()]))


def test_a_rollout_moves_to_another_device_with_all_that_it_has() -> None:
    rollout = small(
        valid=torch.ones(10, dtype=torch.bool),
        extras={"mask": torch.ones(10, 2)},
        final_obs=FinalObs(torch.tensor([6]), torch.tensor([0]), torch.ones(1, 1)),
    )
    assert rollout.to("cpu") is rollout
    moved = rollout.to("meta")
    assert moved.valid is not None
    assert moved.final_obs is not None
    columns = [getattr(moved, f.name) for f in fields(Rollout)]
    tensors = [c for c in columns if isinstance(c, Tensor)]
    assert len(tensors) == 13
    for tensor in (*tensors, moved.extras["mask"], *moved.final_obs):
        assert tensor.device.type == "meta"
    assert (moved.n_envs, moved.index) == (1, 0)
