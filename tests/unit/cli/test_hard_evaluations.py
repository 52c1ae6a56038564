"""Tests of runs and evaluations with a score that is no number, with endless episodes, or on a full disk."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from faults.disk import FaultyDisk
from helpers.cli import TINY, Cli, only_run
from helpers.hard_evaluations import Dice, Endless, LimitedInstances

from rlox.errors import StorageError
from rlox.training.evaluate import Evaluator
from rlox_cli.shell.exit_codes import exit_code
from rlox_cli.shell.messages import describe
from rlox_cli.sweeps.remote_job_runner import open_event_dir

RUN_DIR_ARGUMENT = "hydra.run.dir=run"
SMALL = (*TINY, "total_steps=128", "algo.net_arch=[4]")


class RenderedInstance(LimitedInstances):
    """Allows one instance at a time, and can be rendered."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


class CloseRaises(Dice):
    """Raises in `close`."""

    def close(self) -> None:
        raise OSError("connection already closed")


@pytest.fixture(autouse=True)
def _register_envs() -> Iterator[None]:
    classes: dict[str, Any] = {
        "Drawn-v0": RenderedInstance,
        "Endless-v0": Endless,
        "Lonely-v0": LimitedInstances,
        "NanReward-v0": lambda: Dice("reward"),
        "NanSeen-v0": lambda: Dice("obs"),
        "Unclosable-v0": CloseRaises,
    }
    LimitedInstances.alive = LimitedInstances.max_alive = 0
    for name, env_class in classes.items():
        gym.register(name, env_class)
    yield
    for name in classes:
        gym.registry.pop(name)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_run_whose_score_is_no_number_fails_with_the_episode_in_its_result(cli: Cli) -> None:
    ended = cli("train", *SMALL, "env=NanReward-v0", RUN_DIR_ARGUMENT)
    assert ended.code == 3
    why = "in the final evaluation 3 of 3 returns are not finite: nan in the episode of seed 100000"
    assert f"rlox train: {why}" in ended.err
    assert "score   none: 3 of 3 returns are not finite" in ended.out
    result, status = read(Path("run/result.json")), read(Path("run/status.json"))
    assert (result["status"], result["reason"], result["score"]) == ("failed", why, None)
    assert (status["status"], status["reason"]) == ("failed", why)
    assert result["unscored"].startswith("3 of 3 returns are not finite")


def test_a_sweep_counts_a_run_whose_score_is_no_number_as_failed_and_shows_it(cli: Cli) -> None:
    ended = cli("sweep", *SMALL, "env=NanReward-v0,Endless-v0", "eval.max_steps=3", "hydra.sweep.dir=s")
    assert ended.code == 1
    assert "1 of 2 jobs done" in ended.out
    assert "returns are not finite: nan in the episode of seed 100000" in ended.out
    with Path("s/summary.csv").open() as file:
        rows = {row["env"]: row for row in csv.DictReader(file)}
    assert rows["NanReward-v0"]["status"] == "failed"
    assert "returns are not finite" in rows["NanReward-v0"]["reason"]
    assert rows["Endless-v0"]["score"] == "3.0"


def test_an_observation_that_is_no_number_ends_the_run_with_the_code_of_training(cli: Cli) -> None:
    ended = cli("train", *SMALL, "env=NanSeen-v0", RUN_DIR_ARGUMENT)
    assert ended.code == 3
    assert "an observation of NanSeen-v0 is not finite, in the evaluation episode" in ended.err


def test_evaluate_fails_where_its_score_is_no_number_and_keeps_every_return(cli: Cli) -> None:
    assert cli("train", *SMALL, "env=NanReward-v0", "eval.seed=5", RUN_DIR_ARGUMENT).code == 0
    ended = cli("evaluate", "run", "episodes=2")
    assert ended.code == 3
    assert "2 of 2 returns are not finite: nan in the episode of seed 100000" in ended.err
    assert read(Path("run/eval/last.json"))["episodes"] == [None, None]


def test_evaluate_plays_the_next_run_after_a_nan_score(cli: Cli) -> None:
    for name, env in (("a", "NanReward-v0"), ("b", "CartPole-v1")):
        line = ("env=" + env, "eval.seed=5", f"hydra.run.dir={name}")
        assert cli("train", *SMALL, *line).code == 0
    ended = cli("evaluate", "a", "b", "episodes=2")
    assert ended.code == 3
    assert ended.err.startswith("rlox evaluate: a: 2 of 2 returns are not finite")
    assert len(read(Path("b/eval/last.json"))["episodes"]) == 2


def test_eval_max_steps_cuts_endless_evaluation_episodes(
    cli: Cli,
) -> None:
    ended = cli("train", *SMALL, "env=Endless-v0", "eval.max_steps=9", RUN_DIR_ARGUMENT)
    assert ended.code == 0
    assert "cut     3 of 3 episodes, at max_steps" in ended.out
    assert read(Path("run/result.json"))["episodes"] == [9.0] * 3
    assert read(Path("run/result.json"))["episodes_cut"] == 3
    again = cli("resume", "run", "total_steps=256", "eval.max_steps=4")
    assert again.code == 0, again.err
    assert read(Path("run/result.json"))["score"] == 4.0
    for key in ("max_steps", "eval.max_steps"):
        played = cli("evaluate", "run", "episodes=2", f"{key}=6")
        assert played.code == 0, played.err
        assert "cut     2 of 2 episodes, at max_steps" in played.out
    data = read(Path("run/eval/last.json"))
    assert (data["mean"], data["cut"]) == (6.0, 2)


def test_a_run_that_was_stopped_within_its_evaluation_says_so_and_goes_on_with_a_limit(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Evaluator.__call__

    def interrupted(self: Evaluator, *args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return play(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "__call__", interrupted)
        ended = cli("train", *SMALL, "env=Endless-v0", RUN_DIR_ARGUMENT)
    assert ended.code == 130
    assert "score   none: stopped within the final evaluation" in ended.out
    assert cli("resume", "run", "eval.max_steps=2").code == 0
    assert read(Path("run/result.json"))["score"] == 2.0


def test_a_run_out_of_time_in_its_evaluation_ends_without_a_score_and_resumes(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlox.runs.session.MIN_GRACE_SECONDS", 0.05)
    ended = cli("train", *SMALL, "env=Endless-v0", "stop.minutes=0.02", RUN_DIR_ARGUMENT)
    assert ended.code == 0
    assert "score   none: stop.minutes were over within the final evaluation" in ended.out
    assert read(Path("run/status.json"))["status"] == "done"
    again = cli("resume", "run", "eval.max_steps=2", "stop.minutes=null")
    assert again.code == 0, again.err
    assert read(Path("run/result.json"))["score"] == 2.0


def test_a_single_instance_environment_needs_eval_reuse_env(cli: Cli, tmp_path: Path) -> None:
    alone = (*SMALL, "env=Lonely-v0", "env.n_envs=1")
    refused = cli("train", *alone)
    assert refused.code == 4
    assert "Address already in use" in refused.err
    assert "eval.reuse_env=true" in refused.err
    assert read(only_run(tmp_path / "runs") / "status.json")["step"] == 0
    LimitedInstances.alive = 0
    ended = cli("train", *alone, "eval.reuse_env=true", "eval.every=64", RUN_DIR_ARGUMENT)
    assert ended.code == 0, ended.err
    assert LimitedInstances.max_alive == 1
    assert cli("evaluate", "run", "episodes=2").code == 0
    assert LimitedInstances.max_alive == 1


def test_a_dry_run_refuses_a_single_instance_environment_without_reuse_env(cli: Cli) -> None:
    refused = cli("train", *SMALL, "env=Lonely-v0", "env.n_envs=1", "dry_run=true")
    assert refused.code == 4
    assert "evaluations of Lonely-v0 need 1 beside the 1 of training" in refused.err
    assert "everything fits" not in refused.out


def test_a_single_instance_environment_can_be_filmed_and_recorded(cli: Cli) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="an extra")
    alone = ("env=Drawn-v0", "env.n_envs=1", "eval.reuse_env=true")
    assert cli("train", *SMALL, *alone, RUN_DIR_ARGUMENT).code == 0
    filmed = cli("evaluate", "run", "episodes=2", "video=true")
    assert filmed.code == 0, filmed.err
    assert Path("run/videos/last.mp4").stat().st_size > 0
    for quality in ("expert", "random"):
        made = cli("dataset", "make", "policy=run", f"quality={quality}", f"path={quality}", "steps=9")
        assert made.code == 0, made.err
    assert LimitedInstances.max_alive == 1


def test_a_run_keeps_its_score_where_its_environments_cannot_be_closed(cli: Cli) -> None:
    ended = cli("train", *SMALL, "env=Unclosable-v0", "eval.every=64", RUN_DIR_ARGUMENT)
    assert ended.code == 0, ended.err
    score = read(Path("run/result.json"))["score"]
    told = "WARNING rlox.envs: Unclosable-v0 (copy 0) raised OSError in close: connection already"
    assert told in Path("run/log.txt").read_text()
    assert cli("evaluate", "run", "episodes=3", "seed=100000").code == 0
    assert read(Path("run/eval/last.json"))["mean"] == score
    assert cli("dataset", "make", "policy=random", "env=Unclosable-v0", "path=any", "steps=9").code == 0


def test_a_disk_that_stays_full_to_the_end_is_exit_code_5(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # the last lines of the log do not fit either
    monkeypatch.setattr("rlox_cli.runs.run_folder._RunLogHandler.close", refuse)
    for at in (20, 40, 60, 80):
        run = tmp_path / f"run{at}"
        with FaultyDisk(at, until=10**9, error=errno.ENOSPC, under=run) as disk:
            ended = cli("train", *SMALL, "checkpoint.storage_timeout=0", f"hydra.run.dir={run}")
        assert disk.failed
        assert ended.code == 5, (at, ended.err)
        assert "Traceback" not in ended.err
        assert "No space left on device" in ended.err


def test_a_full_disk_error_has_exit_code_5_and_a_readable_message() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "place/x")
    assert exit_code(full) == 5
    told = "place/x cannot be written: No space left on device; make room there, or write elsewhere"
    assert describe(full) == told
    assert exit_code(OSError(errno.ENOENT, "No such file or directory")) == 1


@pytest.mark.parametrize("call", ["mkdir", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_files_beside_a_run_that_cannot_be_written_are_named_with_exit_code_5(
    cli: Cli, tmp_path: Path, call: str, code: int
) -> None:
    run = tmp_path / "run"
    with FaultyDisk(1, until=10**9, error=code, only=call, under=run / ".hydra") as disk:
        ended = cli("train", *SMALL, f"hydra.run.dir={run}")
    assert disk.failed
    assert ended.code == 5
    assert f"{run / '.hydra'} cannot be written: {os.strerror(code)}; make room there" in ended.err


def test_open_event_dir_raises_a_storage_error_that_names_its_folder(
    tmp_path: Path,
) -> None:
    faulty = FaultyDisk(1, until=10**9, only="mkdir", error=errno.EACCES, under=tmp_path)
    told = rf"{tmp_path}/.jobs-\w+ cannot be written: Permission denied; make room there, or write"
    with faulty, pytest.raises(StorageError, match=told), open_event_dir(tmp_path):
        pass


def test_a_sweep_counts_an_old_done_run_without_a_score_as_failed(
    cli: Cli,
) -> None:
    line = ("sweep", *SMALL, "seed=1,2", "hydra.sweep.dir=s")
    assert cli(*line).code == 0
    (run,) = Path("s").glob("0_*")
    result = read(run / "result.json")
    (run / "result.json").write_text(json.dumps(result | {"score": None, "episodes": [None] * 3}))
    again = cli(*line)
    assert "1 of 2 jobs done" in again.out
    assert f"failed: {run.name}: its score is not finite" in again.out
