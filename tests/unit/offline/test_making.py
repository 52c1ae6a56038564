"""Tests datasets of policies of known quality: played rows, replayed rows, and their description."""

from __future__ import annotations

import json
import math
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.envs import Countdown

from rlox.algorithms import DQN, PPO, SAC
from rlox.configs import EnvConfig
from rlox.envs.make import wrapped_factory
from rlox.errors import ConfigError, NonFiniteError
from rlox.offline import collect, make_random_dataset, make_run_dataset
from rlox.offline.checks import find_problems
from rlox.offline.collect import PlaySettings
from rlox.offline.replay_columns import read_replay_columns, require_replay_sampler
from rlox.runs.checkpoint import read_manifest
from rlox.runs.record import BLOCK_ROWS, GrowingColumns, record
from rlox.sources.dataset_file import Dataset
from rlox.sources.preparation import complete_returns
from rlox.sources.transition_chunks import TransitionChunk
from rlox.training.evaluate import Evaluation

SMALL: dict[str, Any] = {"learning_starts": 40, "batch_size": 16, "net_arch": (8,), "seed": 1}
SHORT_PLAY = PlaySettings(steps=100, n_score_episodes=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of checkpoints after 100, 200, 300 and 400 steps; the last one is the best."""
    folder = tmp_path_factory.mktemp("run")
    algorithm = SAC("Pendulum-v1", buffer_size=1_000, max_episode_steps=50, **SMALL)
    algorithm.config = replace(algorithm.config, eval=replace(algorithm.config.eval, every=100))
    for total in (100, 200, 300, 400):
        algorithm.train(total)
        algorithm.save(folder / "checkpoints" / f"step-{total:012}")
    return folder


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives a policy its number of steps as score, and random actions 0."""
    monkeypatch.setattr(collect, "_random_score", lambda config, how: 0.0)
    monkeypatch.setattr(collect, "_score", lambda algorithm, how: float(algorithm.clock.env_steps))


def assert_sound(dataset: Dataset) -> None:
    assert list(find_problems(dataset.columns, dataset.about)) == []


def test_random_actions_fill_the_bounds_and_the_dataset_describes_their_returns() -> None:
    made = make_random_dataset(EnvConfig(id="Pendulum-v1", n_envs=1), PlaySettings(steps=450, seed=7))
    about, columns = made.about, made.columns
    assert len(columns["rewards"]) == 600  # whole episodes
    assert columns["truncated"].sum() == 3 == about["time_limits"]
    assert about["terminations"] == 0
    assert columns["actions"].min() < -1.9 < 1.9 < columns["actions"].max()
    returns = columns["rewards"].reshape(3, 200).sum(1)
    np.testing.assert_allclose(about["returns"], returns, rtol=1e-5)
    told = about["behaviour"]
    assert told["mean"] == pytest.approx(returns.mean())
    assert [told["min"], told["max"]] == pytest.approx([returns.min(), returns.max()])
    assert told["ci95"][0] <= told["mean"] <= told["ci95"][1]
    assert '"max_episode_steps": 200' in about["spec"]
    assert_sound(made)
    again = make_random_dataset(EnvConfig(id="Pendulum-v1", n_envs=1), PlaySettings(steps=450, seed=7))
    other = make_random_dataset(EnvConfig(id="Pendulum-v1", n_envs=1), PlaySettings(steps=450, seed=8))
    assert again.digest == made.digest != other.digest


def test_random_choices_are_the_environments_and_a_row_is_what_it_did() -> None:
    made = make_random_dataset(EnvConfig(id="CartPole-v1", n_envs=1), PlaySettings(steps=60, seed=3))
    columns = made.columns
    assert columns["actions"].dtype == np.int64
    env = gym.make("CartPole-v1")
    obs, episode = env.reset(seed=3)[0], 0
    for t in range(len(columns["rewards"])):
        np.testing.assert_array_equal(columns["obs"][t], obs)
        obs, reward, terminated, truncated, _ = env.step(int(columns["actions"][t]))
        np.testing.assert_array_equal(columns["next_obs"][t], obs)
        assert (reward, terminated, truncated) == (
            columns["rewards"][t], columns["terminated"][t], columns["truncated"][t],
        )  # fmt: skip
        if terminated or truncated:
            episode += 1
            obs = env.reset(seed=3 + episode)[0]
    assert episode == made.about["episodes"] > 1


@pytest.mark.usefixtures("scores")
def test_medium_is_the_first_checkpoint_past_a_third_of_the_way(run: Path) -> None:
    made = make_run_dataset(run, "medium", SHORT_PLAY)
    assert made.about["checkpoint"] == "step-000000000200"  # 133 is a third of 400
    assert made.about["scores"] == {"random": 0.0, "expert": 400.0, "medium": 200.0}
    assert made.about["trained"]["env_steps"] == 200
    assert len(made.columns["rewards"]) == 100
    assert_sound(made)


@pytest.mark.usefixtures("scores")
def test_medium_replay_has_the_rows_of_the_medium_checkpoints_buffer(run: Path) -> None:
    made = make_run_dataset(run, "medium-replay", SHORT_PLAY)
    assert made.about["checkpoint"] == "step-000000000200"
    columns = made.columns
    assert len(columns["rewards"]) == 200
    assert np.flatnonzero(columns["truncated"]).tolist() == [49, 99, 149, 199]
    assert columns["actions"].shape == (200, 1)
    assert 1.0 < np.abs(columns["actions"]).max() <= 2.0  # torques, not the policy's numbers
    env = wrapped_factory(EnvConfig(id="Pendulum-v1", max_episode_steps=50), None)()
    env.reset(seed=1)
    theta = np.arctan2(columns["obs"][:, 1], columns["obs"][:, 0])
    speed, torque = columns["obs"][:, 2], columns["actions"][:, 0]
    cost = theta**2 + 0.1 * speed**2 + 0.001 * torque**2
    np.testing.assert_allclose(columns["rewards"], -cost, rtol=1e-4, atol=1e-4)
    assert_sound(made)


@pytest.mark.usefixtures("scores")
def test_expert_is_the_best_checkpoint_sampled_or_not(run: Path) -> None:
    sampled, best = (
        make_run_dataset(run, "expert", PlaySettings(50, is_sampled=s, n_score_episodes=2))
        for s in (True, False)
    )
    for made in (sampled, best):
        assert made.about["checkpoint"] == "step-000000000400"
        assert made.about["scores"] == {"random": 0.0, "expert": 400.0}
        assert_sound(made)
    assert sampled.digest != best.digest
    assert make_run_dataset(run, "random", SHORT_PLAY).about["algo"] == "random"


def test_a_run_without_a_medium_checkpoint_says_which_it_has(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {100: 1.0, 200: 2.0, 300: 90.0, 400: 80.0}
    monkeypatch.setattr(collect, "_random_score", lambda config, how: 0.0)
    monkeypatch.setattr(collect, "_score", lambda algorithm, how: scores[algorithm.clock.env_steps])
    told = r"random actions score 0\.0, the best checkpoint 90\.0; .* 30\.0\. .*1\.0, 2\.0, 90\.0, 80\.0"
    with pytest.raises(ConfigError, match=told):
        make_run_dataset(run, "medium", SHORT_PLAY)
    assert make_run_dataset(run, "expert", SHORT_PLAY).about["checkpoint"] == "step-000000000300"
    scores[200] = 31.0
    assert make_run_dataset(run, "medium", SHORT_PLAY).about["checkpoint"] == "step-000000000200"
    monkeypatch.setattr(collect, "_random_score", lambda config, how: 100.0)
    with pytest.raises(ConfigError, match=r"scores 90\.0, random actions 100\.0: nothing was lear"):
        make_run_dataset(run, "medium", SHORT_PLAY)


def test_a_score_is_the_mean_of_so_many_episodes(run: Path) -> None:
    config = EnvConfig(id="Pendulum-v1", n_envs=1, max_episode_steps=50)
    found = collect._random_score(config, PlaySettings(n_score_episodes=3))
    made = make_random_dataset(config, PlaySettings(steps=150, seed=collect.SCORING_SEED))
    assert found == pytest.approx(np.mean(made.about["returns"]))
    algorithm = SAC.from_checkpoint(run / "checkpoints" / "step-000000000100", replay=False)
    played = algorithm.evaluate(3, collect.SCORING_SEED).mean
    assert collect._score(algorithm, PlaySettings(n_score_episodes=3)) == played


def test_rows_of_several_environments_come_one_environment_after_the_other() -> None:
    algorithm = DQN("CartPole-v1", n_envs=3, buffer_size=90, **SMALL)
    algorithm.train(300)
    columns = read_replay_columns(algorithm)
    n = len(columns["rewards"])
    assert 30 < n < 90  # whole episodes of rings of 30, which overwrote rows
    assert columns["actions"].shape == (n,)
    ends = columns["terminated"] | columns["truncated"]
    assert ends[-1]
    assert_sound(Dataset(columns, {}, ""))
    starts = columns["obs"][np.concatenate([[True], ends[:-1]])]
    assert np.abs(starts).max() < 0.05  # as at the beginning of CartPole
    rows = {row.tobytes() for row in columns["obs"]}
    drawn = algorithm.source.replay_sampler.buffer.sample(3_000, 0)
    assert rows < {row.tobytes() for row in drawn["obs"]}


def test_overwritten_and_unfinished_episodes_are_left_out() -> None:
    algorithm = SAC("Pendulum-v1", buffer_size=170, max_episode_steps=50, **SMALL)
    algorithm.train(220)  # the first of the ring's 170 rows begins an episode
    assert np.flatnonzero(read_replay_columns(algorithm)["truncated"]).tolist() == [49, 99, 149]
    algorithm.train(230)
    columns = read_replay_columns(algorithm)
    assert np.flatnonzero(columns["truncated"]).tolist() == [49, 99]
    assert len(columns["rewards"]) == 100
    few = SAC("Pendulum-v1", buffer_size=170, **SMALL)
    few.train(60)
    with pytest.raises(ConfigError, match="has no whole episode"):
        read_replay_columns(few)


class UnsavableEnv(Countdown):
    """Has episodes of 50 steps. Its lock cannot be saved, so a resumed run begins a new episode."""

    def __init__(self) -> None:
        super().__init__((50,))
        self.lock = threading.Lock()


def test_an_episode_that_was_broken_off_is_not_joined_to_the_one_behind_it(tmp_path: Path) -> None:
    first = DQN(UnsavableEnv, buffer_size=1_000, **SMALL)
    first.train(120)
    first.save(tmp_path / "saved")
    resumed = DQN.from_checkpoint(tmp_path / "saved", env=UnsavableEnv)
    with pytest.warns(UserWarning, match="start new episodes: they cannot be saved"):
        resumed.train(220)
    columns = read_replay_columns(resumed)
    # steps 101 to 120 are an interrupted episode, 121 to 220 are two whole ones
    assert np.flatnonzero(columns["terminated"] | columns["truncated"]).tolist() == [
        49,
        99,
        149,
        199,
    ]
    assert columns["obs"][:, 2].tolist() == list(range(50)) * 4
    assert complete_returns(columns).tolist() == [sum(range(1, 51)) + 12.5] * 4


def test_the_rest_of_an_episode_in_a_refilled_buffer_is_left_out(tmp_path: Path) -> None:
    first = SAC("Pendulum-v1", buffer_size=1_000, max_episode_steps=50, **SMALL)
    first.train(120)
    first.save(tmp_path / "saved")
    resumed = SAC.from_checkpoint(tmp_path / "saved", replay=False)
    resumed.train(220)  # rows of steps 121 to 220; the first episode began at 101
    assert np.flatnonzero(read_replay_columns(resumed)["truncated"]).tolist() == [49]


def test_lost_steps_are_left_out_with_their_episode() -> None:
    algorithm = DQN("CartPole-v1", n_envs=2, buffer_size=90, **SMALL)
    memory = require_replay_sampler(algorithm)
    t = np.arange(16) // 2  # env 0 and env 1 in turns
    flags = {"terminated": t == 5, "truncated": np.zeros(16, bool)}
    obs = np.tile(t[:, None], 4).astype(np.float32)
    rows = {"obs": obs, "next_obs": obs + 1, "actions": np.zeros(16, np.int64), "rewards": t * 1.0}
    for part, lost in ((slice(0, 6), [1]), (slice(6, 16), [])):
        stretch = {name: column[part] for name, column in (rows | flags).items()}
        env_ids = np.arange(16)[part] % 2
        memory.push(TransitionChunk(stretch, env_ids, np.array(lost, np.int64)))
    columns = read_replay_columns(algorithm)
    assert columns["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 5]


def test_an_algorithm_without_a_buffer_and_changed_rewards_are_refused() -> None:
    with pytest.raises(ConfigError, match="ppo keeps no replay buffer, expected a run of dqn"):
        read_replay_columns(PPO("CartPole-v1", n_envs=1))
    algorithm = DQN("CartPole-v1", buffer_size=90, reward_scale=0.1, **SMALL)
    algorithm.train(60)
    with pytest.raises(ConfigError, match=r"rewards that .*env\.reward_scale.* changed"):
        read_replay_columns(algorithm)
    with pytest.raises(ConfigError, match="has no whole episode"):
        read_replay_columns(DQN("CartPole-v1", buffer_size=90, **SMALL))


def test_rows_grow_over_blocks_and_keep_their_types() -> None:
    rows = GrowingColumns()
    for k in range(BLOCK_ROWS + 3):
        rows.add({"a": np.float32(k), "b": k % 2 == 0, "c": np.array([k, -k])})
    columns = rows.columns()
    assert len(rows) == BLOCK_ROWS + 3 == len(columns["a"])
    np.testing.assert_array_equal(columns["a"], np.arange(BLOCK_ROWS + 3, dtype=np.float32))
    assert columns["a"].dtype == np.float32
    assert columns["b"].dtype == bool
    assert columns["c"].shape == (BLOCK_ROWS + 3, 2)


def test_recording_a_dataset_needs_either_episodes_or_steps() -> None:
    algorithm = PPO("CartPole-v1", n_envs=1, net_arch=(8,))
    made = record(algorithm, steps=30)
    assert len(made.columns["rewards"]) >= 30
    assert (made.columns["terminated"] | made.columns["truncated"])[-1]
    for wrong in ({}, {"episodes": 1, "steps": 1}):
        with pytest.raises(ConfigError, match="give one of them"):
            record(algorithm, **wrong)
    with pytest.raises(ConfigError, match="steps=0: expected at least 1"):
        record(algorithm, steps=0)


def patch_scores(scores: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the policy of each step reach this return, and random actions 0."""

    def evaluate(self: SAC, episodes: int, seed: int) -> Evaluation:
        returns = (scores[self.clock.env_steps],) * episodes
        return Evaluation(returns, (1,) * episodes, seed)

    monkeypatch.setattr(collect, "_random_score", lambda config, how: 0.0)
    monkeypatch.setattr(SAC, "evaluate", evaluate)


@pytest.mark.parametrize("flaw", [math.nan, math.inf, -math.inf])
def test_a_checkpoint_without_a_finite_score_is_passed_over_with_a_warning(
    flaw: float, run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    patch_scores({100: flaw, 200: 40.0, 300: 90.0, 400: flaw}, monkeypatch)
    told: list[tuple[str, float]] = []
    how = PlaySettings(50, n_score_episodes=2, on_score=lambda name, score: told.append((name, score)))
    made = make_run_dataset(run, "expert", how)
    assert made.about["checkpoint"] == "step-000000000300"
    assert made.about["scores"] == {"random": 0.0, "expert": 90.0}
    assert told == [("step-000000000200", 40.0), ("step-000000000300", 90.0)]
    assert caplog.text.count("skipping step-") == 2
    assert "skipping step-000000000400: a checkpoint of sac has no score: 2 of 2" in caplog.text
    assert make_run_dataset(run, "medium", how).about["checkpoint"] == "step-000000000200"


def test_a_run_without_any_finite_score_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_scores(dict.fromkeys((100, 200, 300, 400), math.nan), monkeypatch)
    with pytest.raises(NonFiniteError, match="has no checkpoint with a finite score: all were skipped"):
        make_run_dataset(run, "expert", SHORT_PLAY)


def test_random_actions_without_a_finite_score_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    played: Any = (GrowingColumns(), [1.0, math.nan], {})
    monkeypatch.setattr(collect, "_play_randomly", lambda *told, **more: played)
    with pytest.raises(NonFiniteError, match="random actions in Pendulum-v1 have no score: nan"):
        collect._random_score(EnvConfig(id="Pendulum-v1"), SHORT_PLAY)


@pytest.mark.usefixtures("scores")
@pytest.mark.parametrize("link", [True, False])
def test_expert_is_the_best_checkpoint_of_the_log_or_else_of_the_scores(
    link: bool, run: Path, tmp_path: Path
) -> None:
    copied = shutil.copytree(run, tmp_path / "run")
    evaluated = read_manifest(run / "checkpoints" / "step-000000000200")["clock"]
    row = {**evaluated, "eval/return_mean": 9.0}
    (copied / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    if link:
        (copied / "checkpoints" / "best").symlink_to("step-000000000200")
    assert make_run_dataset(copied, "expert", SHORT_PLAY).about["checkpoint"] == "step-000000000200"
    (copied / "checkpoints" / "best").unlink(missing_ok=True)
    (copied / "metrics.jsonl").unlink()
    assert make_run_dataset(copied, "expert", SHORT_PLAY).about["checkpoint"] == "step-000000000400"
