"""Tests trainings on Atari: kept results, their cases, and scores that equal those of the games."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import bench_atari
import gymnasium as gym
import numpy as np
import pytest
from bench_atari import BACKEND_BY_SYSTEM, TASKS, Plan
from gymnasium.vector import AutoresetMode
from harness import scores
from harness.atari import AtariWorkload, TimingCallback
from harness.scores import Game, score_problems

PPO = TASKS["ppo"]


class Duel(gym.Env[Any, Any]):
    """Rewards UP in some of 30 frames; two games have equal rewards only if they agree in each frame."""

    observation_space = gym.spaces.Box(0, 255, (2,), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, frameskip: int, repeat_action_probability: float, obs_type: str) -> None:
        assert (frameskip, repeat_action_probability, obs_type) == (1, 0.0, "ram")

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE", "UP"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        paid = 3.0 * (action == 2 and self.t in (9, 14, 17, 22, 27))
        return np.zeros(2, np.uint8), paid, self.t == 30, False, {}


@pytest.fixture
def duel() -> Any:
    gym.register("Duel-v0", Duel, disable_env_checker=True, order_enforce=False)
    yield "Duel-v0"
    del gym.registry["Duel-v0"]


def game(frames: int, actions: list[int]) -> tuple[Game, float]:
    """Plays a game that begins after `frames` frames and FIRE; returns it with its score."""
    env = Duel(1, 0.0, "ram")
    env.reset()
    for action in [0] * frames + [1]:
        env.step(action)
    signs, score, done = [], 0.0, []
    for action in actions:
        paid = 0.0
        for _ in range(4):
            _, reward, over, _, _ = env.step(action)
            paid += reward
            if over:
                break
        signs.append(float(np.sign(paid)))
        score += paid
        done.append(action)
        if over:
            break
    return Game(done, signs, True), score


def test_a_game_that_is_played_again_has_its_score_whenever_it_began(duel):
    for frames in (0, 7, 13):
        played, score = game(frames, [2] * 8)
        assert score > 0
        assert scores.replay_score(duel, played) == score


def test_a_game_with_other_rewards_or_without_an_end_is_not_replayed(duel):
    played, _ = game(7, [2] * 8)
    assert scores.replay_score(duel, played._replace(signs=[-sign for sign in played.signs])) is None
    assert scores.replay_score(duel, Game(played.actions * 2, played.signs * 2, True)) is None
    unfinished = Game(played.actions[:-1], played.signs[:-1], True)
    assert scores.replay_score(duel, unfinished) is None


class Pair(gym.vector.VectorEnv[Any, Any, Any]):
    """Two games of three steps; an extra step begins the next one. The first game gives 5 for each step."""

    def __init__(self) -> None:
        self.num_envs = 2
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(9)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.t = (self.t + 1) % 4
        over = np.full(2, self.t == 3)
        paid = np.array([5.0, 0.0]) if self.t else np.zeros(2)
        return np.zeros((2, 1), np.float32), paid, over, np.zeros(2, bool), {}


def test_the_games_of_the_first_environment_are_noted_without_the_steps_between():
    from rlox.envs.engines.vector import VectorEngine

    engine, other = (VectorEngine(Pair(), 0, "Pair", clip=1.0) for _ in range(2))
    obs, rewards = np.zeros((2, 1), np.float32), np.zeros(2)
    ends = np.zeros(2, bool), np.zeros(2, bool)
    with scores.record_games() as games:
        for one in (engine, other):
            one.reset_into(obs)
        for step in range(8):
            for one in (engine, other):
                one.step_into(np.array([step, 8]), obs, rewards, *ends)
    engine.step_into(np.array([0, 0]), obs, rewards, *ends)
    assert games == [Game([0, 1, 2], [1.0] * 3, True), Game([4, 5, 6], [1.0] * 3, True)]


@pytest.fixture
def ale(monkeypatch) -> Any:
    """Replaces ale-py: a single game has two steps; games side by side have three and lose a life in each."""

    class AtariEnv:
        def reset(self, *, seed: int | None = None) -> None:
            self.left = 2

        def step(self, action: float) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self.left -= 1
            return None, action, not self.left, False, {}

    class AtariVectorEnv:
        lives = np.array([3, 3])

        def step(self, paid: Any) -> Any:
            self.lives = np.where(self.lives, self.lives, 3) - 1
            ends = np.ones(2, bool), np.zeros(2, bool)
            return None, np.array(paid), *ends, {"lives": self.lives}

    both: Any = ModuleType("ale_py")
    both.AtariEnv, both.AtariVectorEnv = AtariEnv, AtariVectorEnv
    for name in ("ale_py", "ale_py.env", "ale_py.vector_env"):
        monkeypatch.setitem(sys.modules, name, both)
    return both


def test_the_score_recorder_notes_vector_env_scores_at_game_over_only(ale):
    envs, others = ale.AtariVectorEnv(), ale.AtariVectorEnv()
    with scores.record_ale_scores() as found:
        for paid in ([1.0, 4.0], [0.0, 7.0], [2.0, 0.0], [5.0, 5.0]):
            envs.step(paid)
        others.step([9.0, 9.0])
    envs.step([1.0, 1.0])
    envs.step([1.0, 1.0])
    assert found == [3.0, 11.0]


def test_the_score_recorder_notes_finished_games_and_skips_abandoned_ones(ale):
    one, other = ale.AtariEnv(), ale.AtariEnv()
    with scores.record_ale_scores() as found:
        for env in (one, other):
            env.reset(seed=1)
        one.step(7.0)
        other.step(1.0)
        other.step(2.0)
        one.reset()
        one.step(4.0)
        one.step(4.0)
    one.reset()
    one.step(1.0)
    one.step(1.0)
    assert found == [3.0, 8.0]


def test_impossible_scores_of_a_game_are_named():
    assert score_problems({"scores": [-21.0, 3.0]}, -21, 21) == []
    assert score_problems({"scores": [3.0, 3.0], "paid": [3.0, 3.0], "again": [[3.0, 3.0]]}, -21, 21) == []
    expected = "expected a whole number from -21 to 21"
    assert score_problems({"scores": [0.5, 22.0]}, -21, 21) == [
        f"a score of 0.5, {expected}", f"a score of 22, {expected}",
    ]  # fmt: skip
    assert score_problems({"scores": [1.0], "paid": [1.0, 2.0]}, 0, 9) == ["told [1.0], ALE paid [1.0, 2.0]"]
    assert score_problems({"scores": [1.0], "again": [[1.0, None]]}, 0, 9) == [
        "told 1, the same actions in ALE: None"
    ]


def run(total: float, **more: Any) -> dict[str, Any]:
    return {
        "seconds": {"total": total, "collect": total / 4, "update": total / 2, "cpu": total},
        "counts": {"env_steps": 400, "updates": 3},
        "buffer": {"rows": 400, "row_bytes": 7300.0},
        "peak_bytes": 5e8,
        "scores": [-21.0],
        "paid": [-21.0],
        "again": None,
        **more,
    }  # fmt: skip


def keep(plan: Plan, seconds: dict[str, float]) -> None:
    plan.folder.mkdir(exist_ok=True)
    for system, total in seconds.items():
        plan.path(PPO, system, 0).write_text(json.dumps(run(total)))


def test_existing_results_are_kept_and_compared_with_the_peer(tmp_path: Path, capsys):
    plan = Plan(steps=400, folder=tmp_path / "kept")
    keep(plan, {"rlox": 2.0, "rlox, EnvPool": 1.0, "SB3": 2.0})
    systems = ["rlox", "rlox, EnvPool", "SB3"]
    report = bench_atari.measure(plan, [PPO], systems, 1)
    whole, *parts = report.cases
    assert whole.work == "PPO on Pong: training"
    assert [(v.ours, v.ratio, v.met) for v in whole.verdicts if v.goal] == [
        ("rlox", 1.0, False), ("rlox, EnvPool", 2.0, True),
    ]  # fmt: skip
    assert not any(v.goal for part in parts for v in part.verdicts)
    assert [part.systems[0].median for part in parts] == [0.5, 1.0, 2.0]
    runs = {("PPO on Pong", s): [plan.read_result(PPO, s, 0)] for s in systems}
    bench_atari.write(report, runs, tmp_path)
    page = (tmp_path / "atari.md").read_text()
    assert "each sample one run" in page
    assert "| PPO on Pong | rlox | 200 | 200 | 500 MB | 7,300 B | 7.30 GB | 1 | -21 to -21 | 1 | - |" in page
    document = json.loads((tmp_path / "atari.json").read_text())
    assert [of["system"] for of in document["runs"]] == systems
    assert bench_atari.check_scores(runs) == 0
    runs["PPO on Pong", "SB3"][0]["scores"] = [-22.0]
    assert bench_atari.check_scores(runs) == 2
    assert "WRONG  PPO on Pong, SB3: a score of -22" in capsys.readouterr().out


def test_a_missing_training_runs_in_a_new_process(tmp_path: Path, monkeypatch):
    plan, asked = Plan(steps=400, torch_threads=2, folder=tmp_path / "kept"), []

    def made(command: list[str], **options: Any) -> Any:
        asked.append((command, options["env"]["OMP_NUM_THREADS"]))
        Path(command[-1]).write_text(json.dumps(run(1.0)))
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(bench_atari.subprocess, "run", made)
    for _ in range(2):
        assert plan.run(PPO, "SB3", 3)["counts"] == {"env_steps": 400, "updates": 3}
    ((command, threads),) = asked
    assert command[2:6] == ["--steps", "400", "--torch-threads", "2"]
    assert command[6:10] == ["--one", "ppo", "SB3", "3"]
    assert threads == "2"
    Plan(400, 2, True, plan.folder).run(PPO, "SB3", 3)
    assert len(asked) == 2
    monkeypatch.setattr(
        bench_atari.subprocess,
        "run",
        lambda *_, **__: type("D", (), {"returncode": 1, "stderr": "why"}),
    )
    with pytest.raises(SystemExit, match="PPO on Pong, rlox: ended with 1\nwhy"):
        plan.run(PPO, "rlox", 0)


def test_every_task_system_size_and_seed_has_its_own_result():
    paths = {
        Plan(steps, threads).path(task, system, number)
        for task in TASKS.values()
        for system in BACKEND_BY_SYSTEM
        for steps in (400, 800)
        for threads in (1, 2)
        for number in (0, 1)
    }
    assert len(paths) == 2 * 4 * 8


def test_the_first_update_of_a_value_network_comes_after_a_fiftieth_of_the_run():
    assert AtariWorkload("dqn", "ALE/Breakout-v5", 50_000).settings == {"learning_starts": 1_000}
    assert AtariWorkload("ppo", "ALE/Pong-v5", 50_000).settings == {}


def test_the_benchmark_watch_notes_training_times_and_buffer_size():
    from rlox.algorithms import DQN

    watch = TimingCallback()
    dqn = DQN("CartPole-v1", n_envs=1, learning_starts=16, batch_size=8, buffer_size=64, callbacks=watch)
    dqn.train(64)
    notes = TimingCallback.notes
    assert notes["buffer"]["rows"] == 64
    assert notes["buffer"]["row_bytes"] == dqn.source.replay_sampler.buffer.nbytes / 64
    assert notes["total"] > dqn.timings.collect + dqn.timings.update > 0
    assert notes["cpu"] > 0
    dqn.close()


def test_packages_that_are_missing_are_named_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr(bench_atari.peers, "is_importable", lambda name: name != "opencv")
    assert bench_atari.main(["--tasks", "ppo"]) == 2
    said = capsys.readouterr().err
    assert "opencv-python-headless" in said
    assert "or --systems" in said and "--allow-missing" not in said
    with pytest.raises(SystemExit):
        bench_atari.main(["--systems", "SB3"])
    assert "name one of rlox beside it" in capsys.readouterr().err
