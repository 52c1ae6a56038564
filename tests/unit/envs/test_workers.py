"""Tests supervised workers: a failure costs one episode of the environments in its process, which restart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from faults.deadlines import expire_for_hung
from faults.processes import alive, descendants, wait_until_ended
from faults.workers import (
    FAILURES,
    IN_PROCESS_FAILURES,
    ChangingSpace,
    CounterEnv,
    FailingConstructor,
    FailingReset,
    GlobalRandomEnv,
    Lives,
    SpawnsProcess,
    Threaded,
)
from gymnasium.envs.registration import EnvSpec, load_env_creator
from helpers.waiting import PATIENCE
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.envs.base import EpisodeEnds, VectorEnv
from rlox.envs.ids import registered_specs
from rlox.envs.make import make_vec
from rlox.envs.workers.wire import Wire
from rlox.errors import ConfigError, EnvError, ShapeError
from rlox.sources.episodes import EpisodeTracker

SEED, N = 7, 4
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="orphans are handed over on Linux only")


def made(source: Any, **config: Any) -> Any:
    """Makes two workers of two environments each, unless `config` says otherwise."""
    given = {
        "n_envs": N, "worker_envs": 2, "step_timeout": PATIENCE, "seeding": "offset", **config
    }  # fmt: skip
    return make_vec(EnvConfig(workers="subprocess", **given), SEED, source)


class Play:
    """Steps a vector with actions 0 and keeps its outputs."""

    def __init__(self, vec: VectorEnv) -> None:
        self.vec = vec
        self.obs: NDArray[Any] = np.zeros((vec.n_envs, vec.observations.dim), np.float32)
        self.rewards, self.flags = np.zeros(vec.n_envs), np.zeros((2, vec.n_envs), np.bool_)
        vec.reset_into(self.obs)

    def step(self) -> EpisodeEnds | None:
        actions = np.zeros(self.vec.n_envs, np.int64)
        return self.vec.step_into(actions, self.obs, self.rewards, *self.flags)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()


@pytest.fixture
def vecs() -> Any:
    """Makes vectors and closes them at the end."""
    opened = []

    def open_one(source: Any, **config: Any) -> Any:
        opened.append(made(source, **config))
        return opened[-1]

    yield open_one
    for vec in opened:
        vec.close()


@pytest.fixture
def hangs_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the deadlines of hung workers expire at once; those of other workers stay long."""
    expire_for_hung(monkeypatch)


QUICK = ("raise", "kill", "sleep")


@pytest.mark.usefixtures("hangs_are_late")
@pytest.mark.parametrize(
    "way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.slow) for way in FAILURES]
)
def test_a_failure_costs_the_episodes_of_its_process_and_no_other(way: str, vecs: Any) -> None:
    """Environment 0 fails in step 2 of its second episode; 1 is in the same process, 2 and 3 are not."""
    vec = vecs(partial(CounterEnv, way, fails_below=SEED + 1))
    play = Play(vec)
    play.steps(5)
    process = play.obs[:, 0].copy()
    finals = play.step()
    lost = [0] if way in IN_PROCESS_FAILURES else [0, 1]
    others = [i for i in range(N) if i not in lost]
    assert finals is not None
    assert finals.lost_envs.tolist() == lost
    assert (finals.restarts, len(finals.envs)) == (1, 0)
    assert play.rewards.tolist() == [0.0 if i in lost else 1.0 for i in range(N)]
    assert play.flags[0].tolist() == [False] * N
    assert play.flags[1].tolist() == [i in lost for i in range(N)]
    assert play.obs[lost, 2:].tolist() == [[0, 0]] * len(lost)
    assert play.obs[others, 1:].tolist() == [[SEED + i, 1, 2] for i in others]
    assert (play.obs[:, 0] == process).tolist() == [
        way in IN_PROCESS_FAILURES or i in others for i in range(N)
    ]
    assert not set(play.obs[lost, 1]) & set(range(SEED, SEED + N))
    lives = play.obs[:, 1].copy()
    play.step()
    assert play.obs[lost, 2:].tolist() == [[0, 1]] * len(lost)
    assert play.obs[others, 2:].tolist() == [[1, 3]] * len(others)
    assert play.obs[:, 1].tolist() == lives.tolist()


def test_restarts_do_not_depend_on_the_number_of_environments_per_worker(vecs: Any) -> None:
    seen = []
    for worker_envs in (1, 3, None):
        play = Play(vecs(partial(CounterEnv, "raise", fails_below=SEED + N), worker_envs=worker_envs))
        seen.append([])
        for _ in range(12):
            finals = play.step()
            lost = [] if finals is None else finals.lost_envs.tolist()
            seen[-1] += [play.obs[:, 1:].tolist(), lost, play.flags.tolist()]
    assert seen[0] == seen[1] == seen[2]
    assert len({life for step in seen[0][::3] for life, *_ in step}) == 2 * N


EVERYONE = 1 << 63


def test_an_environment_that_fails_too_often_in_a_row_is_an_error_with_its_traceback(
    vecs: Any,
) -> None:
    play = Play(vecs(partial(CounterEnv, "raise", EVERYONE, within=0, at=1), max_restarts=3))
    for _ in range(3):
        finals = play.step()
        assert finals is not None
        assert finals.lost_envs.tolist() == list(range(N))
    told = r"copy 0\) raised RuntimeError in step: a fault on purpose; failed 4 times .*max_restarts=3"
    with pytest.raises(EnvError, match=rf"(?s){told}.*Traceback.*in fail"):
        play.step()
    with pytest.raises(EnvError, match="closed"):
        play.step()


def test_a_finished_episode_resets_the_count_of_failures_in_a_row(vecs: Any) -> None:
    play = Play(vecs(partial(CounterEnv, "raise", EVERYONE, at=1, steps=1), max_restarts=1))
    for _ in range(4):
        for index in ("envs", "lost_envs"):
            finals = play.step()
            assert finals is not None
            assert getattr(finals, index).tolist() == list(range(N))


@pytest.mark.parametrize("way", ["raise", "kill"])
def test_a_failure_after_a_lost_life_discards_the_whole_game(way: str, vecs: Any) -> None:
    vec = vecs(partial(Lives, way, fails_below=SEED + 1, steps=2, within=9), worker_envs=1)
    play, tracker = Play(vec), EpisodeTracker(N)
    for _ in range(2):
        finals = play.step()
        tracker.add(play.rewards)
    assert finals is not None
    assert (finals.envs.tolist(), finals.lost_envs.tolist()) == ([1, 2, 3], [0])
    tracker.drop_episodes(finals.lost_envs, finals.restarts)
    assert tracker.finish(finals.envs, 0, finals.infos) == []
    assert tracker.returns.tolist() == [0.0, 2.0, 2.0, 2.0]


@pytest.mark.usefixtures("hangs_are_late")
def test_worker_errors_name_where_a_process_hung_or_how_it_ended(vecs: Any) -> None:
    for way, told in (
        (
            "block",
            rf"did not answer step within {PATIENCE:g} s .*env.step_timeout.*workers.py.* in fail",
        ),
        (
            "abort",
            r"copies 0 to 1\): a subprocess died during step: it was killed by SIGABRT.*in fail",
        ),
        ("exit", r"died during step: it exited with code 3"),
    ):
        play = Play(vecs(partial(CounterEnv, way, EVERYONE), max_restarts=0))
        play.steps(5)
        with pytest.raises(EnvError, match=rf"(?s){told}"):
            play.step()


def test_workers_report_a_failing_constructor_or_first_reset_at_once(vecs: Any) -> None:
    with pytest.raises(EnvError, match=r"(?s)copy 0\) raised KeyError in __init__: 'map'.*Traceback"):
        vecs(partial(FailingConstructor, KeyError("map")))
    with pytest.raises(ConfigError, match=r"^a word of rlox$"):
        vecs(partial(FailingConstructor, ConfigError("a word of rlox")))
    with pytest.raises(EnvError, match=r"copy 0\) raised OSError in reset: no such map"):
        Play(vecs(FailingReset))


def test_copies_with_other_spaces_are_refused(vecs: Any, tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="has the spaces"):
        vecs(partial(ChangingSpace, tmp_path))


def test_a_wrong_number_of_actions_is_refused_before_anybody_steps(vecs: Any) -> None:
    play = Play(vecs(CounterEnv))
    for shape in ((1,), (N - 1,), (N, 1)):
        with pytest.raises(ShapeError, match=r"expected \(4,\)"):
            play.vec.step_into(np.zeros(shape, np.int64), play.obs, play.rewards, *play.flags)
    play.step()
    assert play.obs[:, 3].tolist() == [1] * N


def test_an_interrupted_step_leaves_no_answer_for_the_next_step(
    vecs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(vecs(CounterEnv, n_envs=2, worker_envs=1))
    play.step()
    receive, calls = Wire.receive, iter([None, KeyboardInterrupt])

    def broken(wire: Wire, deadline: float | None = None) -> Any:
        if (error := next(calls, None)) is not None:
            raise error
        return receive(wire, deadline)

    monkeypatch.setattr(Wire, "receive", broken)
    with pytest.raises(KeyboardInterrupt):
        play.step()
    play.step()
    assert play.obs[:, 3].tolist() == [3, 3]


def test_an_exact_state_goes_on_in_mid_episode(vecs: Any) -> None:
    first, second = (
        Play(make_vec(EnvConfig("Pendulum-v1", n_envs=3, workers="subprocess", worker_envs=k), SEED))
        for k in (2, 1)
    )
    try:
        actions = np.random.default_rng(0).uniform(-2, 2, (230, 3, 1)).astype(np.float32)
        for action in actions[:90]:
            first.vec.step_into(action, first.obs, first.rewards, *first.flags)
        assert first.vec.resume_grade == "exact"
        second.vec.restore(first.vec.state())
        for action in actions[90:]:
            for play in (first, second):
                play.vec.step_into(action, play.obs, play.rewards, *play.flags)
            assert np.array_equal(first.obs, second.obs)
            assert np.array_equal(first.rewards, second.rewards)
    finally:
        first.vec.close()
        second.vec.close()


def test_environments_that_cannot_be_saved_resume_with_new_seeds(vecs: Any) -> None:
    source = partial(CounterEnv, "raise", fails_below=SEED + 1)
    first, second = vecs(source), vecs(source)
    play = Play(first)
    play.steps(6)
    assert first.resume_grade == "episode_start"
    second.restore(first.state())
    again = Play(second)
    assert not set(again.obs[:, 1]) & {*play.obs[:, 1], *range(SEED, SEED + N)}
    assert second.state()["restarts"].tolist() == [1, 0, 0, 0]


def test_processes_do_not_share_the_global_generators(vecs: Any) -> None:
    rows = Play(vecs(GlobalRandomEnv, worker_envs=1)).obs
    assert len(set(rows[:, 0])) == len(set(rows[:, 1])) == len(set(rows[:, 2])) == N


def test_registered_classes_of_modules_are_sent_to_workers_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Local(CounterEnv):
        pass

    given = {"Named-v0": CounterEnv, "Local-v0": Local, "Made-v0": partial(CounterEnv, "raise")}
    for name, entry in given.items():
        monkeypatch.setitem(gym.registry, name, EnvSpec(name, entry))
    sent = {spec.id: spec.entry_point for spec in registered_specs()}
    assert sent["Named-v0"] == "faults.workers:CounterEnv"
    assert load_env_creator(sent["Named-v0"]) is CounterEnv
    assert all(sent[name] is given[name] for name in ("Local-v0", "Made-v0"))


def test_another_template_takes_the_place_of_one_that_died(vecs: Any) -> None:
    play = Play(vecs(CounterEnv))
    workers = [int(pid) for pid in set(play.obs[:, 0])]
    (template,) = (pid for pid in descendants(os.getpid()) if set(workers) <= set(descendants(pid)))
    os.kill(template, signal.SIGKILL)
    assert wait_until_ended(workers)
    finals = play.step()
    assert finals is not None
    assert (finals.lost_envs.tolist(), finals.restarts) == (list(range(N)), 2)
    assert not set(play.obs[:, 0]) & set(workers)
    play.step()
    assert play.obs[:, 3].tolist() == [1] * N


def test_a_template_with_threads_is_not_forked(vecs: Any) -> None:
    play = Play(vecs(Threaded(SEED + 1)))
    (worker, *_) = [int(pid) for pid in play.obs[:, 0]]
    assert "import worker" in Path(f"/proc/{worker}/cmdline").read_text()
    play.steps(5)
    finals = play.step()
    assert finals is not None
    assert finals.lost_envs.tolist() == [0, 1]
    assert play.obs[:, 3].tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize("session", [False, pytest.param(True, marks=LINUX)])
def test_processes_that_environments_start_end_with_their_worker(vecs: Any, session: bool) -> None:
    play = Play(vecs(partial(SpawnsProcess, "kill", SEED + 1, session)))
    children = [int(pid) for pid in play.obs[:, 1]]
    play.steps(5)
    assert all(map(alive, children))
    play.step()
    assert wait_until_ended(children[:2])
    assert all(map(alive, children[2:]))
    play.vec.close()
    assert wait_until_ended([*children, *(int(pid) for pid in play.obs[:, :2].ravel())])


SCRIPT = """
    import sys, os, signal
    import gymnasium as gym, numpy as np
    from gymnasium import spaces
    from rlox import GymVecEnv

    class Mine(gym.Env):
        observation_space = spaces.Box(0, np.inf, (1,), np.float64)
        action_space = spaces.Discrete(2)
        def reset(self, seed=None, options=None):
            return np.array([os.getpid()]), {}
        def step(self, action):
            return self.reset()[0], 1.0, False, False, {}

    gym.register("Mine-v0", Mine)
    gym.register("Named-v0", "__main__:Mine")
    for source in (Mine, "Mine-v0", "Named-v0", lambda: gym.make("Mine-v0"), lambda: gym.make("Named-v0")):
        vec = GymVecEnv(source, 2, workers="subprocess")
        print(*vec.reset_all()[:, 0].astype(int), flush=True)
        vec.step_all([0, 0])
    if sys.argv[1:]:
        os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("ends", ["", str(int(signal.SIGKILL))])
def test_a_script_needs_no_main_guard_and_leaves_no_worker_behind(ends: str) -> None:
    """The script closes none of its vectors."""
    line = [sys.executable, "-c", textwrap.dedent(SCRIPT), *ends.split()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=5 * PATIENCE)
    assert done.returncode == -int(ends or 0), done.stderr
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 10
    assert wait_until_ended(workers)
