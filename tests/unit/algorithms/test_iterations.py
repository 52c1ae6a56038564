"""Tests that PPO and A2C give the same bits whether they collect and learn in one call or in two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.mid_call import raise_during
from helpers.states import assert_same_state, pack_state

from rlox import set_num_threads
from rlox.algorithms import A2C, PPO, HybridPPO
from rlox.errors import NonFiniteError
from rlox.native.sources import FusedSource
from rlox.sources.rollout import RolloutSource
from rlox.types import Clock, FusedUpdate, Progress, Rollout, Update

SETTINGS: list[dict[str, Any]] = [
    {"algo": A2C, "env_id": "CartPole-v1", "n_envs": 8, "n_steps": 5, "ent_coef": 0.01},
    {"algo": A2C, "env_id": "CartPole-v1", "n_envs": 1, "n_steps": 40, "anneal_lr": True},
    {"algo": A2C, "env_id": "Pendulum-v1", "use_rms_prop": False, "normalize_advantages": True},
    {"algo": A2C, "env_id": "Pendulum-v1", "use_sde": True, "rms_prop_tf_like": True},
    {"algo": A2C, "env_id": "Acrobot-v1", "max_grad_norm": 100.0, "activation": "relu"},
    {"algo": PPO, "env_id": "CartPole-v1", "anneal_lr": True, "anneal_clip": True},
    {"algo": PPO, "env_id": "CartPole-v1", "target_kl": 1e-4, "ent_coef": "lin_0.02"},
    {"algo": PPO, "env_id": "Pendulum-v1", "n_envs": 1, "clip_vloss": True},
    {"algo": PPO, "env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
    {"algo": PPO, "env_id": "Pendulum-v1", "normalize_advantages": False, "batch_size": 50},
]
EACH = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def made(settings: dict[str, Any], apart: bool = False) -> Any:
    """Return a run; with `apart` it collects and learns in two calls, with the source of torch learners."""
    given = {"n_envs": 4, "n_steps": 16, "seed": 7, "net_arch": (16, 8), **settings}
    facade = given.pop("algo")
    if facade is PPO:
        given = {"n_epochs": 3, "batch_size": 32, **given}
    run = facade(backend="native", **given)
    assert type(run.source) is FusedSource
    if apart:
        run.source = RolloutSource(run.collector, run.learner.native, run.config.algo.n_steps)
    return run


def trained(run: Any, rollouts: int) -> list[tuple[Clock, Progress, Update]]:
    """Train for so many rollouts and return the arguments of the hooks."""
    told: list[tuple[Clock, Progress, Update]] = []
    rows = run.config.algo.n_steps * run.collector.n_envs
    run.fit(rollouts * rows, [lambda *of: told.append(of)])
    return told


def saved(run: Any, folder: Path) -> dict[str, Any]:
    """Return the whole state and the columns of the last rollout."""
    run.save(folder)
    state = {"learner": run.learner.state(), "collector": run.collector.state()}
    state |= {"last": run.source.last_batch(), "clock": run.clock.counters}
    return pack_state(state)


@EACH
def test_fused_ppo_and_a2c_equal_separate_collection_and_learning_bit_for_bit(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    whole, apart = made(settings), made(settings, apart=True)
    told, others = trained(whole, 40), trained(apart, 40)
    assert len(told) == 40
    assert told == others  # clocks, episodes and all numbers, including the explained variance
    assert_same_state(saved(whole, tmp_path / "whole"), saved(apart, tmp_path / "apart"))
    assert whole.recent.state() == apart.recent.state()
    assert any(progress.episodes for _, progress, _ in told) or settings["env_id"] == "Acrobot-v1"


@EACH
def test_fused_ppo_and_a2c_resume_bit_for_bit_from_a_checkpoint(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    straight, first = made(settings), made(settings)
    told = trained(straight, 30)
    first.set_total_steps(straight.config.total_steps)  # the schedules depend on the total
    early: list[Any] = []

    def stop(*of: Any) -> None:
        early.append(of)
        if len(early) == 13:
            first.stop("enough")

    first.fit(first.config.total_steps, [stop])
    first.save(tmp_path / "first")
    back = type(first).from_checkpoint(tmp_path / "first")
    assert type(back.source) is FusedSource
    assert early + trained(back, 30) == told
    assert_same_state(saved(back, tmp_path / "back"), saved(straight, tmp_path / "straight"))


@pytest.mark.parametrize("algo", [A2C, PPO])
def test_fused_ppo_and_a2c_give_equal_bits_for_any_number_of_threads(algo: Any, tmp_path: Path) -> None:
    wide = {"algo": algo, "env_id": "CartPole-v1", "n_envs": 1_500, "n_steps": 4}
    found = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            run = made(wide)
            trained(run, 3)
            found.append(saved(run, tmp_path / str(threads)))
    finally:
        set_num_threads(None)
    assert_same_state(found[0], found[1])
    assert_same_state(found[0], found[2])


def test_only_fully_native_runs_collect_and_learn_in_one_call() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"normalize_obs": True}, False),
        ({"normalize_reward": True}, False),
        ({"env_backend": "gymnasium"}, False),
    ]
    for settings, whole in cases:
        run = A2C("CartPole-v1", backend="native", n_envs=2, **settings)
        batch, progress = run.source.next(run.clock)
        assert isinstance(batch, FusedUpdate if whole else Rollout)
        assert progress.env_steps == 10
    for run in (A2C("CartPole-v1", backend="torch"), HybridPPO("CartPole-v1")):
        assert type(run.source) is RolloutSource


def test_collecting_and_learning_are_timed_apart() -> None:
    run = made({"algo": PPO, "env_id": "CartPole-v1", "n_epochs": 300})
    trained(run, 10)
    assert run.timings.update > run.timings.collect > 0.0


@pytest.mark.parametrize("algo", [A2C, PPO])
@pytest.mark.parametrize("apart", [False, True])
def test_a_nan_column_raises_with_its_name_step_and_environment(algo: Any, apart: bool) -> None:
    run = made({"algo": algo, "env_id": "CartPole-v1"}, apart)
    trained(run, 2)
    before = run.learner.optimizer.steps
    with torch.no_grad():
        run.policy.critic[-1].bias.fill_(float("nan"))
    says = r"^values: nan at step 0 of rollout 2, environment 0 \(env_steps 192\); expected finite numbers$"
    with pytest.raises(NonFiniteError, match=says) as raised:
        trained(run, 3)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    assert (run.collector.rollouts, run.collector.env_steps) == (2, 192)
    assert run.learner.optimizer.steps == before
    assert np.isnan(run.source.last_batch()["values"]).all()


@pytest.mark.parametrize("algo", [A2C, PPO])
@pytest.mark.parametrize("apart", [False, True])
def test_a_nonfinite_loss_raises_with_the_number_of_its_rollout(algo: Any, apart: bool) -> None:
    run = made({"algo": algo, "env_id": "CartPole-v1", "learning_rate": 1e38}, apart)
    says = r"in the update of rollout \d \(env_steps \d+\); lower algo.learning_rate"
    with pytest.raises(NonFiniteError, match=says):
        trained(run, 9)
    # The collector keeps the steps that it collected.
    assert run.collector.rollouts == run.collector.env_steps // 64 == run.clock.updates + 1


def broken_off(what: str, size: int) -> Any:
    """Return a run with an interrupted call; the setting `what` is so large that the call takes long."""
    runs: list[Any] = []

    def call(size: int) -> Callable[[], object]:
        given = {"n_steps": 64, "batch_size": 64, what: size}
        runs.append(made({"algo": PPO, "env_id": "CartPole-v1", **given}))
        runs[-1].collector._arena_for(given["n_steps"])  # allocate before the long call
        return lambda: runs[-1].source.next(runs[-1].clock)

    raise_during(call, size)
    return runs[-1]


@pytest.mark.parametrize(("what", "size", "collected"), [("n_steps", 20_000, 0), ("n_epochs", 5_000, 1)])
def test_an_interrupted_fused_iteration_leaves_ppo_in_a_consistent_state(
    what: str, size: int, collected: int
) -> None:
    # The speed of the machine decides in which half the interrupt arrives; the test needs the given half.
    runs = (broken_off(what, size << more) for more in range(6))
    run = next((run for run in runs if run.collector.rollouts == collected), None)
    assert run is not None, "never broken off in the half that was meant"
    assert (run.learner.optimizer.steps > 0) == (collected > 0)
    stand = np.empty((4, 4), np.float32)
    run.collector.env.core.observe_into(stand)
    assert np.array_equal(run.collector._obs, stand)
