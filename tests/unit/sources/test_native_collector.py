"""Tests rollouts of a policy in Rust: one call has the bits of single steps, and torch's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.masked_envs import make_masked
from helpers.mid_call import raise_during
from numpy.typing import NDArray

from rlox import set_num_threads
from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.algorithms import A2C, PPO
from rlox.collectors import NativeCollector, RolloutCollector
from rlox.envs.native import NativeVecEnv
from rlox.errors import ConfigError, ShapeError
from rlox.native.policy import NativePolicy
from rlox.types import Episode, Rollout

SETTINGS: list[dict[str, Any]] = [
    {"env_id": "CartPole-v1"},
    {"env_id": "Acrobot-v1", "activation": "relu", "net_arch": (8,)},
    {"env_id": "Pendulum-v1", "net_arch": (16, 8), "critic_net_arch": (9,)},
    {"env_id": "MountainCarContinuous-v0", "use_sde": True},
    {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 5},
]
EACH = pytest.mark.parametrize("settings", SETTINGS, ids=str)


class ByHand(NativeVecEnv):
    """A subclass, which the collector therefore steps from Python."""


def made(settings: dict[str, Any], n_envs: int = 5, by_hand: bool = False) -> Any:
    run = A2C(backend="native", n_envs=n_envs, seed=11, n_steps=7, **settings)
    with torch.no_grad():  # for an actor with preferences, and values that differ
        for parameter in run.policy.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    if by_hand:
        run.collector.env = ByHand(run.config.env.id, n_envs, 11)
    return run


def gathered(run: Any, n_steps: int = 60, rounds: int = 4) -> tuple[list[dict[str, Any]], list[Episode]]:
    """Collects some rollouts; returns all columns, and the episodes that ended in them."""
    columns, episodes = [], []
    for _ in range(rounds):
        rollout = run.collector.collect(run.learner.native, n_steps)
        columns.append({name: value.clone() for name, value in tensors(rollout).items()})
        episodes += run.collector.progress.episodes
    return columns, episodes


def tensors(rollout: Rollout) -> dict[str, torch.Tensor]:
    named = {name: getattr(rollout, name) for name in rollout.__dataclass_fields__}
    if rollout.final_obs is not None:
        named |= rollout.final_obs._asdict()
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}


@EACH
def test_a_rollout_in_one_call_equals_single_steps_bit_for_bit(
    settings: dict[str, Any],
) -> None:
    whole, stepped = made(settings), made(settings, by_hand=True)
    columns, episodes = gathered(whole)
    others, told = gathered(stepped)
    assert len(columns) == len(others) == 4
    for left, right in zip(columns, others, strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert torch.equal(value, right[name]), name
    assert episodes == told
    assert np.array_equal(whole.collector.tracker.returns, stepped.collector.tracker.returns)
    assert np.array_equal(whole.collector.tracker.lengths, stepped.collector.tracker.lengths)
    assert whole.collector.env_steps == stepped.collector.env_steps == 4 * 60 * 5


@EACH
def test_native_rollouts_have_torchs_log_probs_values_and_bootstraps(
    settings: dict[str, Any],
) -> None:
    run = made(settings)
    run.collector.collect(run.learner.native, 300)  # until episodes end
    rollout = run.collector.collect(run.learner.native, 300)
    with torch.no_grad():
        log_probs, _, values = run.policy.evaluate_actions(rollout.obs, rollout.actions)
        assert torch.allclose(rollout.log_probs, log_probs, atol=1e-4)
        assert torch.allclose(rollout.values, values, atol=1e-4)
        assert torch.allclose(rollout.last_values, run.policy.get_value(rollout.last_obs), atol=1e-4)
        after = torch.cat([values[5:], rollout.last_values])
        if rollout.final_obs is not None:
            steps, envs, last = rollout.final_obs
            after[steps * 5 + envs] = run.policy.get_value(last)
        after[rollout.terminated] = 0.0
        assert torch.allclose(rollout.next_values, after, atol=1e-4)


def test_next_values_are_nonzero_after_truncation_and_0_after_termination() -> None:
    run = made({"env_id": "Pendulum-v1"})
    rollout = run.collector.collect(run.learner.native, 400)
    ends = rollout.truncated & ~rollout.terminated
    assert int(ends.sum()) == 2 * 5
    assert bool((rollout.next_values[ends] != 0.0).all())
    cart = made({"env_id": "CartPole-v1"})
    fallen = cart.collector.collect(cart.learner.native, 200)
    assert int(fallen.terminated.sum()) > 5
    assert bool((fallen.next_values[fallen.terminated] == 0.0).all())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_no_bit_depends_on_how_many_threads_act(env_id: str) -> None:
    found = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            columns, _ = gathered(made({"env_id": env_id}, n_envs=1_500), n_steps=4, rounds=2)
            found.append(columns)
    finally:
        set_num_threads(None)
    for others in found[1:]:
        for left, right in zip(found[0], others, strict=True):
            assert all(torch.equal(value, right[name]) for name, value in left.items())


def test_actions_are_drawn_as_often_as_the_policy_says() -> None:
    run = made({"env_id": "Acrobot-v1"}, n_envs=4_000)
    rollout = run.collector.collect(run.learner.native, 1)
    with torch.no_grad():
        said = torch.softmax(run.policy.logits(rollout.obs), -1).mean(0)
    found = torch.bincount(rollout.actions, minlength=3) / 4_000
    assert torch.allclose(found, said, atol=0.03)  # about four standard errors
    assert float(said.max() - said.min()) > 0.05


def test_the_noise_of_a_rollout_is_a_function_of_its_number_alone() -> None:
    straight, late = made(SETTINGS[0]), made(SETTINGS[0])
    columns, _ = gathered(straight, rounds=3)
    gathered(late, rounds=1)
    state = late.collector.state()
    other = made(SETTINGS[0])
    other.collector.restore(state)
    again, _ = gathered(other, rounds=2)
    assert torch.equal(columns[2]["actions"], again[1]["actions"])
    assert not torch.equal(columns[1]["actions"], columns[2]["actions"])


def test_a_masked_policy_takes_only_what_is_allowed() -> None:
    run = PPO(
        lambda: make_masked("info", strict=True), backend="native", n_envs=3, n_steps=24, batch_size=24,
        seed=1, action_mask="info",
    )  # fmt: skip
    rollout = run.collector.collect(run.learner.native, 200)
    mask = rollout.extras["action_mask"]
    assert bool((~mask).any())
    assert bool(mask.gather(1, rollout.actions[:, None]).all())
    with torch.no_grad():
        log_probs, _, values = run.policy.evaluate_actions(rollout.obs, rollout.actions)
    assert torch.allclose(rollout.log_probs, log_probs, atol=1e-4)
    assert torch.allclose(rollout.values, values, atol=1e-4)


def test_python_steps_environments_with_normalisation_or_of_gymnasium() -> None:
    for settings in (
        {"env_id": "CartPole-v1", "normalize_obs": True},
        {"env_id": "CartPole-v1", "normalize_reward": True},
        {"env_id": "CartPole-v1", "env_backend": "gymnasium"},
    ):
        run = A2C(backend="native", n_envs=2, seed=1, **settings)
        told = run.train(400)
        assert run.collector.env_steps >= 400
        assert np.isfinite(told["loss/total"])
        with torch.no_grad():
            rollout = run.collector.collect(run.learner.native, 20)
            log_probs, _, _ = run.policy.evaluate_actions(rollout.obs, rollout.actions)
        assert torch.allclose(rollout.log_probs, log_probs, atol=1e-4)


def test_an_interrupted_rollout_continues_from_the_present_observations() -> None:
    run = made({"env_id": "CartPole-v1"}, n_envs=64)
    run.collector.collect(run.learner.native, 10)

    def collect(n_steps: int) -> Callable[[], object]:
        run.collector._arena_for(n_steps)  # allocated before, so that the call itself is long
        return lambda: run.collector.collect(run.learner.native, n_steps)

    raise_during(collect, 5_000)
    stand = np.empty((64, 4), np.float32)
    run.collector.env.core.observe_into(stand)
    rollout = run.collector.collect(run.learner.native, 1)
    assert np.array_equal(rollout.obs.numpy(), stand)


def test_a_native_collector_collects_with_modules_like_the_usual_collector() -> None:
    settings = {"env_id": "CartPole-v1", "n_envs": 3, "seed": 2}
    run = A2C(backend="native", **settings)
    usual = RolloutCollector(**settings)
    own = NativeCollector(**settings)
    assert torch.equal(own.collect(run.policy, 20).actions, usual.collect(run.policy, 20).actions)
    with pytest.raises(ConfigError, match="collect with a NativeCollector"):
        usual.collect(run.learner.native, 20)


def engine_of_four() -> tuple[OnPolicyEngine, NDArray[np.float32]]:
    engine = OnPolicyEngine(
        [
            ("actor.0.weight", (2, 4)), ("actor.0.bias", (2,)),
            ("critic.0.weight", (1, 4)), ("critic.0.bias", (1,)),
        ],
        kind="choices", size=2, obs_dim=4, actor=[], critic=[],
    )  # fmt: skip
    return engine, np.zeros(len(engine), np.float32)


def test_the_native_rollout_policy_refuses_invalid_arrays_by_name() -> None:
    engine, vector = engine_of_four()
    policy = RolloutPolicy(engine)
    obs, columns = (
        np.zeros((3, 4), np.float32),
        [np.zeros(3, np.int64), *np.zeros((2, 3), np.float32)],
    )
    where: dict[str, Any] = {"seed": 0, "rollout": 0, "step": 0}
    policy.act(vector, obs, *columns, **where)
    assert np.allclose(columns[1], -np.log(2.0))
    for arguments, more, error, says in (
        ((vector[1:], obs, *columns), {}, ShapeError, "parameters has shape"),
        (
            (vector, obs[:, 1:], *columns),
            {},
            ShapeError,
            r"obs has shape \[3, 3\], expected \[3, 4\]",
        ),
        (
            (vector, obs, columns[1], columns[1], columns[2]),
            {},
            ShapeError,
            "actions is a float32 array",
        ),
        ((vector, obs, columns[0], columns[1], columns[1]), {}, ShapeError, "values shares memory"),
        ((vector, obs, *columns), {"mask": np.ones((3, 3), bool)}, ShapeError, "mask has shape"),
        (
            (vector, obs, *columns),
            {"mask": np.zeros((3, 2), bool)},
            ConfigError,
            "mask of row 0 is false",
        ),
    ):
        with pytest.raises(error, match=says):
            policy.act(*arguments, **where, **more)
    with pytest.raises(ConfigError, match="noise_kept is 0, expected at least 1"):
        RolloutPolicy(engine, 0)


def test_environments_of_other_spaces_are_refused_before_a_step() -> None:
    engine, vector = engine_of_four()
    policy = RolloutPolicy(engine)
    run = A2C("Pendulum-v1", backend="native", n_envs=2, n_steps=4)
    arena = run.collector._arena_for(4)
    columns = [getattr(arena, name) for name in (
        "obs", "actions", "rewards", "terminated", "truncated", "log_probs", "values", "next_values",
    )]  # fmt: skip
    sums = np.zeros(2), np.zeros(2, np.int64)
    before = run.collector.env.core.get_state()
    with pytest.raises(
        ShapeError, match=r"obs is .* expected a C-contiguous float32 array of shape \[5, 2, 4\]"
    ):
        policy.collect(vector, run.collector.env.core, *columns, *sums, seed=0, rollout=0)
    assert isinstance(run.learner.native, NativePolicy)
    run.learner.native.rollout_policy.collect(
        run.learner.native.vector, run.collector.env.core, *columns, *sums, seed=0, rollout=0
    )
    assert not np.array_equal(run.collector.env.core.get_state(), before)
