"""Tests that a run resumed by `rlox train resume=RUN` equals an uninterrupted run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli
from helpers.tree import tree
from helpers.waiting import PATIENCE, until

import rlox.build
import rlox.runs.session
from rlox.errors import ConfigError, NonFiniteError
from rlox.runs import progress
from rlox_cli.main import main
from rlox_cli.runs import plot
from rlox_cli.runs.run_folder import RunFolder, read_config, read_status

TENSORS = ("weights.safetensors", "optimizer.safetensors", "state.safetensors")
SMALL = (*TINY, "total_steps=640", "checkpoint.every=128", "log.every=128")
# log rows and checkpoints are at different steps, so a checkpoint holds metrics that no row has yet
LONG = (*TINY, "algo.anneal_lr=true", "log.every=1500", "eval.every=3000", "total_steps=10000")
TESTS = Path(__file__).parents[2]


def rows(run: Path) -> list[dict[str, Any]]:
    """Return the rows of `metrics.jsonl` without wall-clock times."""
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in r.items() if not k.startswith(("seconds", "time/"))} for r in found]


def outcome(run: Path) -> tuple[Any, ...]:
    tensors = [(run / "checkpoints" / "last" / name).read_bytes() for name in TENSORS]
    episodes = (run / "episodes.jsonl").read_bytes()
    score = json.loads((run / "result.json").read_text())["episodes"]
    return tensors, rows(run), episodes, score


def stopping(number: int, *steps: int) -> Callable[[Any, Any], None]:
    """Return a progress display that sends this process a signal at each of `steps`."""

    def show(self: Any, now: Any) -> None:
        if now.now in steps:
            os.kill(os.getpid(), number)

    return show


@pytest.fixture(scope="module")
def killed_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("killed") / "run"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(plot, "learning_curve", lambda run: None)
        patch.setattr(progress.LineReporter, "__call__", stopping(signal.SIGTERM, 256))
        assert main(["train", *SMALL, f"hydra.run.dir={run}"]) == 143
    return run


@pytest.fixture
def killed(cli: Cli, killed_template: Path) -> Path:
    """Return a run that a signal stopped at step 256 of 640."""
    return Path(shutil.copytree(killed_template, "run", symlinks=True))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(plot, "learning_curve", lambda run: None)
        assert main(["train", *LONG, f"hydra.run.dir={run}"]) == 0
    return outcome(run)


def start_and_stop(number: int, appears: str, *args: str) -> int:
    """Start `rlox train` in `run`, signal it when a file like `appears` has content, and return the code.

    The process waits in step 6,000 for the signal, so the signal stops it at that step or before.
    """
    held = [sys.executable, "-m", "helpers.gate", "6000"]
    command = [*held, "train", *LONG, *args, "hydra.run.dir=run"]
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    env, null = {**os.environ, "PYTHONPATH": path}, subprocess.DEVNULL

    def written() -> bool:
        assert process.poll() is None
        return any(p.stat().st_size for p in Path("run").glob(appears))

    with subprocess.Popen(command, env=env, stdout=null, stderr=null) as process:
        try:
            until(written, f"run/{appears}")
            process.send_signal(number)
            return process.wait(PATIENCE)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code", "left"),
    [
        pytest.param(signal.SIGTERM, 143, "killed", marks=pytest.mark.slow),
        (signal.SIGKILL, -9, "running"),
    ],
)
def test_a_stopped_and_resumed_process_equals_an_uninterrupted_one(
    cli: Cli, uninterrupted: tuple[Any, ...], number: int, code: int, left: str
) -> None:
    first = "checkpoints/step-*/manifest.json"
    assert start_and_stop(number, first, "checkpoint.every=2000") == code
    assert read_status(Path("run"))["status"] == left
    result = cli("train", "resume=run")
    assert result.code == 0, result.err
    assert "of 10,112 (exact)" in result.out
    assert outcome(Path("run")) == uninterrupted
    assert (read_status(Path("run"))["status"], read_status(Path("run"))["step"]) == ("done", 10112)


def test_a_run_killed_before_its_first_checkpoint_starts_again_and_ends_equal(
    cli: Cli, uninterrupted: tuple[Any, ...]
) -> None:
    assert start_and_stop(signal.SIGKILL, "metrics.jsonl", "checkpoint.every=1000000") == -9
    result = cli("train", "resume=run")
    assert (result.code, "resumed at step 0 of 10,112" in result.out) == (0, True)
    assert outcome(Path("run")) == uninterrupted


def test_a_run_stopped_several_times_equals_an_uninterrupted_one(
    cli: Cli, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for step, number in ((384, signal.SIGINT), (512, signal.SIGTERM)):
            patch.setattr(progress.LineReporter, "__call__", stopping(number, step))
            result = cli("train", f"resume={killed}")
            assert result.code == 128 + number
            assert read_status(killed)["status"] == "killed"
            assert (killed / "checkpoints/last").resolve().name == f"step-{step:012d}"
    assert cli("train", f"resume={killed}").code == 0
    assert cli("train", *SMALL, "hydra.run.dir=whole").code == 0
    assert outcome(killed) == outcome(Path("whole"))
    resumes = json.loads((killed / "result.json").read_text())["resumes"]
    assert resumes == [{"step": step, "grade": "exact"} for step in (256, 384, 512)]


def test_resume_records_its_step_and_keeps_the_earlier_files(cli: Cli, killed: Path) -> None:
    before = {n: (killed / n).read_bytes() for n in ("config.yaml", "provenance.json")}
    assert json.loads(before["provenance.json"])["resume_grade"] == "exact"
    result = cli("train", f"resume={killed}", "eval.episodes=4", "log.every=256")
    assert result.code == 0, result.err
    assert "  resumed at step 256 of 640 (exact)\n" in result.out
    assert "  changed eval.episodes 3 -> 4\n" in result.out
    kept = killed / ".hydra" / "resume1"
    assert (kept / "config.yaml").read_bytes() == before["config.yaml"]
    assert (killed / "provenance.json").read_bytes() == before["provenance.json"]
    assert "eval.episodes=4" in (kept / "overrides.yaml").read_text()
    origin = json.loads((kept / "provenance.json").read_text())
    assert origin["command"] == "rlox train resume=run eval.episodes=4 log.every=256"
    assert (origin["resumed_at"], origin["resume_grade"]) == (256, "exact")
    assert read_config(killed)["eval"]["episodes"] == 4
    assert len(json.loads((killed / "result.json").read_text())["episodes"]) == 4
    assert "resumed at step 256" in (killed / "log.txt").read_text()


def test_a_run_that_is_done_goes_on_to_a_larger_total(cli: Cli, trained: Path) -> None:
    result = cli("train", f"resume={trained}", "total_steps=5e2")
    assert result.code == 0, result.err
    assert "changed total_steps 256 -> 500\n" in result.out
    assert "resumed at step 256 of 512 (exact)" in result.out
    assert (read_config(trained)["total_steps"], read_status(trained)["step"]) == (500, 512)
    old = json.loads((trained / ".hydra/resume1/result.json").read_text())
    assert old["env_steps"] == 256
    assert cli("train", *TINY, "total_steps=500", "hydra.run.dir=whole").code == 0
    # No schedule stretches, so it equals the longer run, except that its rows also have the first end.
    assert outcome(trained)[0] == outcome(Path("whole"))[0]
    assert outcome(trained)[2:] == outcome(Path("whole"))[2:]


def test_resume_says_that_schedules_stretch_with_a_larger_total(cli: Cli) -> None:
    assert cli("train", *TINY, "algo.anneal_lr=true", "hydra.run.dir=run").code == 0
    out = cli("train", "resume=run", "total_steps=1024").out
    assert "changed total_steps 256 -> 1,024 (schedules stretch)" in out


def test_a_run_that_is_done_is_not_touched(cli: Cli, trained: Path) -> None:
    before = tree(trained)
    for extra in ((), ("total_steps=256",), ("total_steps=200",), ("eval.episodes=9",)):
        result = cli("train", f"resume={trained}", *extra)
        assert (result.code, "has taken its 256 steps" in result.out) == (0, True)
        assert tree(trained) == before


def test_a_run_that_stopped_at_its_score_goes_on_when_the_score_is_lifted(cli: Cli) -> None:
    assert cli("train", *TINY, "eval.every=128", "stop.score=1", "hydra.run.dir=run").code == 0
    assert read_status(Path("run"))["reason"] == "score"
    told = cli("train", "resume=run").out
    assert "run was stopped at 128 of 256 steps (score); nothing was changed" in told
    assert "to train further, give another stop.score, or stop.score=null; to evaluate" in told
    result = cli("train", "resume=run", "stop.score=null")
    assert "changed stop.score 1.0 -> null" in result.out
    assert (result.code, read_status(Path("run"))["step"]) == (0, 256)


@pytest.mark.parametrize("name", ["a path with =", "{absolute}", "a link"])
def test_resume_finds_a_run_by_an_odd_absolute_or_linked_path(
    cli: Cli, killed: Path, tmp_path: Path, name: str
) -> None:
    name = name.format(absolute=tmp_path / "run")
    if name == "a link":
        (tmp_path / name).symlink_to(tmp_path / "run", target_is_directory=True)
    elif not Path(name).exists():
        killed.rename(name)
    result = cli("train", f"resume={name}")
    assert (result.code, f"folder  {name}\n" in result.out) == (0, True), result.err


def test_resume_announces_new_episodes_if_environments_cannot_be_saved(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = ("env=Breaking-v0", "env.kwargs.after=1000000", "hydra.run.dir=run")
    with monkeypatch.context() as patch:
        patch.setattr(progress.LineReporter, "__call__", stopping(signal.SIGTERM, 256))
        assert cli("train", *SMALL, *never).code == 143
    origin = json.loads(Path("run/provenance.json").read_text())
    assert origin["resume_grade"] == "episode_start"
    result = cli("train", "resume=run")
    assert result.code == 0, result.err
    assert "(environments start new episodes: they cannot be saved)" in result.out
    data = json.loads(Path("run/result.json").read_text())
    assert data["resumes"] == [{"step": 256, "grade": "episode_start"}]


@pytest.mark.parametrize("damage", ["content", "manifest"])
def test_an_older_whole_checkpoint_stands_in_for_a_damaged_one(cli: Cli, killed: Path, damage: str) -> None:
    newest = killed / "checkpoints" / "step-000000000256"
    if damage == "content":
        data = bytearray((newest / "weights.safetensors").read_bytes())
        data[-1] ^= 1
        (newest / "weights.safetensors").write_bytes(data)
    else:
        (newest / "manifest.json").unlink()
    result = cli("resume", str(killed))
    assert result.code == 0, result.err
    assert "rlox resume: warning: passing over step-000000000256" in result.err
    assert "resumed at step 128 of 640 (exact)" in result.out
    assert newest.with_name(f"{newest.name}.damaged1").is_dir()
    assert cli("train", *SMALL, "hydra.run.dir=whole").code == 0
    assert outcome(killed) == outcome(Path("whole"))


def test_without_one_whole_checkpoint_nothing_is_started_or_lost(cli: Cli, killed: Path) -> None:
    for manifest in (killed / "checkpoints").glob("step-*/manifest.json"):
        manifest.write_text("{}")
    before = tree(killed)
    result = cli("train", f"resume={killed}")
    assert (result.code, "has only damaged checkpoints: step-" in result.err) == (1, True)
    assert tree(killed) == before


def test_a_finished_run_whose_checkpoints_were_deleted_is_not_trained_again(cli: Cli, trained: Path) -> None:
    shutil.rmtree(trained / "checkpoints")
    before = tree(trained)
    result = cli("train", f"resume={trained}", "total_steps=512")
    assert (result.code, result.err) == (
        1,
        f"rlox train: {trained} was done at step 256 and has no checkpoints any more\n"
        "  put checkpoints/ back, or start a new run: rlox train\n",
    )
    assert tree(trained) == before


def test_a_resumed_run_may_learn_by_another_engine(cli: Cli, killed: Path) -> None:
    said = cli("train", f"resume={killed}", "algo.backend=native")
    assert said.code == 0
    assert "changed algo.backend auto -> native (another engine draws other actions)" in said.out
    assert read_config(killed)["algo"]["backend"] == "native"
    assert json.loads((killed / "result.json").read_text())["env_steps"] == 640


@pytest.mark.parametrize("error", [ConfigError("odd"), NonFiniteError("loss is nan")])
def test_a_resumed_run_that_fails_keeps_its_folder_and_says_so(
    cli: Cli, killed: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(self: Any) -> None:
        raise error

    monkeypatch.setattr(rlox.runs.session.Session, "run", fail)
    result = cli("train", f"resume={killed}")
    assert result.code == (3 if isinstance(error, NonFiniteError) else 1)
    assert f"traceback: {killed / 'log.txt'}" in result.err
    assert "Traceback" in (killed / "log.txt").read_text()
    status = read_status(killed)
    assert (status["status"], status["step"]) == ("failed", 256)
    assert (killed / "checkpoints/last/manifest.json").is_file()


def test_a_signal_while_loading_changes_nothing(
    cli: Cli, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(killed)
    monkeypatch.setattr(rlox.build, "resume", lambda run, config, check: os.kill(os.getpid(), signal.SIGTERM))
    assert cli("train", f"resume={killed}").code == 143
    assert tree(killed) == before
    with RunFolder.reopen(killed):  # the folder is not locked
        assert read_status(killed)["status"] == "killed"
