"""Tests that an environment that breaks its contract, raises, dies or hangs ends the run with its name.

In a subprocess, it ends the run after more than `env.max_restarts` failures: `test_crashing_env.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from faults.deadlines import expire_for_hung
from faults.envs import LIES, CrashingEnv, LyingEnv
from helpers.small_ppo import SMALL_PPO
from helpers.waiting import PATIENCE

from rlox.algorithms import PPO
from rlox.errors import EnvError, NonFiniteError


def train(env: Any, n_envs: int = 1, **options: Any) -> float:
    algorithm = PPO(env, n_envs=n_envs, seed=0, **SMALL_PPO, **options)
    try:
        return algorithm.train(16 * n_envs * 20)["env_steps"]
    finally:
        algorithm.close()


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_environment_is_told_apart_from_a_bug_in_rlox(lie: str) -> None:
    # NumPy converts None in an observation to NaN, which rlox finds a moment later
    with pytest.raises((EnvError, NonFiniteError), match=r"copy 0|environment 0"):
        train(partial(LyingEnv, lie))


def test_an_exception_in_an_environment_names_the_copy_and_the_call() -> None:
    with pytest.raises(EnvError, match=r"copy \d\) raised RuntimeError in step: a fault on purpose"):
        train(partial(CrashingEnv, p_raise=0.05), n_envs=2)


def test_a_nan_from_an_environment_stops_the_run() -> None:
    with pytest.raises(NonFiniteError, match=r"obs: \S+ at step"):
        train(partial(CrashingEnv, p_nan=0.05))


def test_a_slow_environment_is_only_slow() -> None:
    assert train(partial(CrashingEnv, p_slow=0.005)) == 320


@pytest.mark.parametrize(
    ("fault", "said"),
    [("p_kill", "died during step"), ("p_hang", f"did not answer step within {PATIENCE:g} s")],
    ids=["dies", "hangs"],
)
def test_a_worker_that_hangs_is_found_at_the_deadline_and_one_that_dies_long_before(
    fault: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = expire_for_hung(monkeypatch)
    broken = partial(CrashingEnv, **{fault: 0.05})
    with pytest.raises(EnvError, match=said):
        train(broken, 2, workers="subprocess", step_timeout=PATIENCE, max_restarts=0)
    assert bool(passed) == (fault == "p_hang")
