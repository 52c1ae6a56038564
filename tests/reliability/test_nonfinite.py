"""Tests that a NaN or infinity stops the run in the update in which it appears, and reaches no checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from faults.envs import NonFiniteEnv
from faults.report import record
from helpers.selection import each_value_once
from helpers.small_ppo import small_ppo
from safetensors import SafetensorError

from rlox.algorithms import A2C, DQN, PPO, RecurrentPPO
from rlox.build import build
from rlox.configs import make_run
from rlox.errors import NonFiniteError, StorageError
from rlox.loggers import JsonLines
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint
from rlox.runs.session import Session
from rlox_cli.main import main

ROLLOUT = 32
LAST_GOOD = 3 * ROLLOUT
VALUES = (math.nan, math.inf, -math.inf)


STOPPED_BY_CASE: dict[tuple[str, str], bool] = {}
"""For each place and value that was tried, whether the run stopped."""


@pytest.fixture(autouse=True, scope="module")
def record_tries() -> Iterator[None]:
    """Publish the tries of this file."""
    yield
    places, values = ({entry[index] for entry in STOPPED_BY_CASE} for index in (0, 1))
    counts = {"places": sorted(places), "values": sorted(values), "tried": len(STOPPED_BY_CASE)}
    record("non-finite", counts | {"missed": sum(not stopped for stopped in STOPPED_BY_CASE.values())})


@contextmanager
def try_case(place: str, value: float) -> Iterator[None]:
    """Count the case as missed unless the body passes."""
    STOPPED_BY_CASE[place, str(value)] = False
    yield
    STOPPED_BY_CASE[place, str(value)] = True


@pytest.fixture(autouse=True)
def register_envs() -> Any:
    gym.register("NonFinite-v0", "faults.envs:NonFiniteEnv")
    gym.register("Walk-v0", "faults.envs:Walk")
    yield
    gym.registry.pop("NonFinite-v0")
    gym.registry.pop("Walk-v0")


def make_config(env: str, **kwargs: Any) -> dict[str, Any]:
    return {
        "algo": small_ppo(backend="torch"),  # the backend whose parts the tests damage
        "env": {"id": env, "n_envs": 2, "kwargs": kwargs},
        "total_steps": 10 * ROLLOUT,
        "checkpoint": {"every": ROLLOUT},
        "log": {"every": ROLLOUT},
        "eval": {"episodes": 1},
    }


def check_stopped(algorithm: Any, folder: Path, hint: str) -> None:
    """Require that the run ends in its fourth update with an error that names the value and the place."""
    with pytest.raises(NonFiniteError) as caught:
        Session(algorithm, folder).run()
    message = str(caught.value)
    assert hint in message
    assert f"env_steps {LAST_GOOD + ROLLOUT}" in message, message
    assert algorithm.clock.env_steps == LAST_GOOD
    check_last_good(folder)


def check_last_good(folder: Path) -> None:
    newest = newest_checkpoint(folder)
    assert newest is not None
    checkpoint = read_checkpoint(newest)
    assert checkpoint.clock["env_steps"] == LAST_GOOD
    tensors = [*checkpoint.weights.values()]
    tensors += [t for m in checkpoint.optimizer["moments"].values() for t in m.values()]
    assert all(np.isfinite(t).all() for t in tensors)
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(r)["env_steps"] for r in rows] == [ROLLOUT, 2 * ROLLOUT, LAST_GOOD]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("where", ["obs", "reward"])
@pytest.mark.parametrize("step", [1, 9, 16])
def test_a_nonfinite_observation_or_reward_stops_the_run_in_that_rollout(
    where: str, value: float, step: int, tmp_path: Path
) -> None:
    at = 3 * 16 + step
    made = make_config("NonFinite-v0", where=where, value=value, at=at)
    with try_case(f"{where} of step {step}", value):
        check_stopped(build(make_run(made)), tmp_path, "rewards" if where == "reward" else "obs")


@pytest.mark.parametrize("where", ["obs", "reward"])
def test_a_nan_stops_a_run_with_normalized_observations_and_rewards(where: str, tmp_path: Path) -> None:
    made = make_config("NonFinite-v0", where=where, value=math.nan, at=50)
    made["env"] |= {"normalize_obs": True, "normalize_reward": True}
    with try_case(f"{where}, normalised", math.nan):
        check_stopped(build(make_run(made)), tmp_path, "rewards" if where == "reward" else "obs")


def damage_fourth_rollout(algorithm: Any, damage: Callable[[], None]) -> None:
    """Call `damage` when the fourth rollout starts."""
    collect = algorithm.collector.collect

    def collect_damaged(*args: Any) -> Any:
        if algorithm.clock.env_steps == LAST_GOOD:
            damage()
        return collect(*args)

    algorithm.collector.collect = collect_damaged


@pytest.mark.parametrize("value", VALUES)
def test_a_nonfinite_value_estimate_stops_the_run(value: float, tmp_path: Path) -> None:
    algorithm = build(make_run(make_config("Walk-v0")))
    weight = next(p for p in algorithm.policy.parameters() if p.shape[:1] == (1,))  # the value head

    def damage() -> None:
        with torch.no_grad():
            weight.reshape(-1)[0] = value

    damage_fourth_rollout(algorithm, damage)
    with try_case("values", value):
        check_stopped(algorithm, tmp_path, "values")


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_nonfinite_loss_or_gradient_stops_the_run_with_its_name(
    where: str, value: float, tmp_path: Path
) -> None:
    algorithm: Any = build(make_run(make_config("Walk-v0")))
    learner = algorithm.learner

    def damage() -> None:
        if where == "loss":
            terms_of = learner._terms

            def damaged(*args: Any) -> Any:
                terms = terms_of(*args)
                return terms._replace(value=terms.value * value)

            learner._terms = damaged
            return
        backward = learner.optimizer.backward

        def damaged_backward(loss: Any, limit: float) -> Any:
            backward(loss, limit)
            learner.optimizer.gradient[0] = value
            return torch.linalg.vector_norm(learner.optimizer.gradient)

        learner.optimizer.backward = damaged_backward

    damage_fourth_rollout(algorithm, damage)
    with try_case(where, value):
        check_stopped(algorithm, tmp_path, "loss/value" if where == "loss" else "train/grad_norm")


@pytest.mark.parametrize("value", VALUES)
def test_a_nonfinite_parameter_stops_the_run_with_its_name(value: float, tmp_path: Path) -> None:
    algorithm: Any = build(make_run(make_config("Walk-v0")))
    name, parameter = list(algorithm.policy.named_parameters())[-1]
    step = algorithm.learner.optimizer.step
    steps = [0]

    def stepped() -> None:
        step()
        steps[0] += 1
        if steps[0] == 8:  # the second and last minibatch of the fourth update
            with torch.no_grad():
                parameter.reshape(-1)[-1] = value

    algorithm.learner.optimizer.step = stepped
    with try_case("parameter", value):
        check_stopped(algorithm, tmp_path, name)


def test_the_finite_guard_does_not_stop_a_run_with_finite_numbers(tmp_path: Path) -> None:
    huge = make_config("NonFinite-v0", where="reward", value=1e30, at=50)
    algorithm = build(make_run(huge))
    try:
        Session(algorithm, tmp_path).run()
    except NonFiniteError as error:  # the error must name the square, which overflows float32
        assert "loss/value" in str(error) or "not finite" in str(error)
    other = build(make_run(make_config("Walk-v0")))
    assert Session(other, tmp_path / ".." / tmp_path.name).run().clock.env_steps == 10 * ROLLOUT


def test_the_command_exits_with_3_and_keeps_the_last_good_checkpoint(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["train", "tuned=null", "env=NonFinite-v0", "env.n_envs=2",
                 "+env.kwargs.where=obs", "+env.kwargs.value=nan", "+env.kwargs.at=50", "algo.n_steps=16",
                 "algo.batch_size=16", "algo.n_epochs=1", f"total_steps={10 * ROLLOUT}",
                 f"checkpoint.every={ROLLOUT}", f"log.every={ROLLOUT}", "eval.episodes=1"])  # fmt: skip
    said = capsys.readouterr().err
    assert code == 3, said
    assert "obs: nan at step" in said
    assert len(said.splitlines()) <= 8
    (status,) = workdir.glob("runs/*/*/*/status.json")
    found = json.loads(status.read_text())
    assert found["status"] == "failed"
    assert "NonFiniteError" in found["reason"]
    check_last_good(status.parent)


def test_a_failed_write_of_the_batch_does_not_hide_the_nonfinite_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("rlox.runs.session.save_file", refused)
    algorithm = build(make_run(make_config("NonFinite-v0", where="obs", value=math.nan, at=50)))
    check_stopped(algorithm, tmp_path, "obs")


def test_a_failed_write_of_the_rows_does_not_hide_the_nonfinite_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closed = JsonLines.close, []

    def refused(rows: JsonLines, *hurried: Any) -> None:
        close(rows, *hurried)
        closed.append(rows.path.name)
        if rows.path.name == "metrics.jsonl":
            raise StorageError("no room for the rows")

    monkeypatch.setattr(JsonLines, "close", refused)
    algorithm = build(make_run(make_config("NonFinite-v0", where="obs", value=math.nan, at=50)))
    check_stopped(algorithm, tmp_path, "obs")
    assert closed == ["metrics.jsonl", "episodes.jsonl"]
    with pytest.raises(StorageError, match="no room"):
        Session(build(make_run(make_config("Walk-v0"))), tmp_path).run()


def test_a_nan_observation_stops_a_run_started_from_python() -> None:
    algorithm: Any = PPO(lambda: NonFiniteEnv("obs", math.nan, 19), n_envs=1, n_steps=16, batch_size=16)
    with pytest.raises(NonFiniteError, match=r"obs: nan at step 3 of rollout 1"):
        algorithm.train(160)
    assert np.isfinite(algorithm.learner.optimizer.vector).all()


class EndsAtNonFinite(NonFiniteEnv):
    """Ends each episode in the step with the value, by termination or truncation."""

    def __init__(self, value: float, terminated: bool) -> None:
        super().__init__("obs", value, 19)
        self.is_terminated = terminated

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        is_over = self.steps == self.when
        return obs, reward, is_over and self.is_terminated, is_over and not self.is_terminated, info


LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "torch": (PPO, {"backend": "torch"}),
    "native": (A2C, {"backend": "native"}),
    "normalised": (PPO, {"backend": "native", "normalize_obs": True}),
    "recurrent": (RecurrentPPO, {"lstm_hidden_size": 4}),
    "replayed": (DQN, {"learning_starts": 8}),
}
END_CASES = [(name, str(value), end) for name in LEARNERS for value in VALUES for end in (True, False)]


@pytest.mark.parametrize(("learner", "value", "terminated"), each_value_once(END_CASES))
def test_the_last_observation_of_an_episode_is_refused_as_any_other_one(
    learner: str, value: str, terminated: bool
) -> None:
    facade, options = LEARNERS[learner]
    rollouts = {} if facade is DQN else {"n_steps": 16}
    number = float(value)
    algorithm = facade(lambda: EndsAtNonFinite(number, terminated), n_envs=1, **rollouts, **options)
    told = (
        r"next_obs is not finite in environment 0 \(env_steps 19\)"
        if facade is DQN
        else rf"obs: {value} at step 2 of rollout 1, environment 0 \(env_steps 19\), the last one of its ep"
    )
    with (
        try_case(f"last obs, terminated={terminated}", number),
        pytest.raises(NonFiniteError, match=told),
    ):
        algorithm.train(160)


def test_the_last_observation_from_rust_is_refused_too() -> None:
    algorithm: Any = A2C("CartPole-v1", backend="native", n_envs=2, n_steps=16)
    # by hand, because rlox's own environments never return one
    steps, envs = np.array([3, 7]), np.array([1, 0])
    last = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, math.nan, 0.0, 0.0]], np.float32)
    told = r"obs: nan at step 7 of rollout 0, environment 0 \(env_steps 0\), the last one of its episode"
    with pytest.raises(NonFiniteError, match=told):
        algorithm.collector._unpack_ended((steps, envs, last, np.zeros(2), np.ones(2, np.int64)), 0)
