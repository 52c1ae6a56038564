"""Tests of a training run from the command line: its files, its output and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli, only_run
from helpers.waiting import PATIENCE

import rlox.build
import rlox.runs.session
from rlox.errors import (
    CheckpointError,
    ConfigError,
    EnvError,
    MissingExtraError,
    NonFiniteError,
    ShapeError,
    StorageError,
)
from rlox.runs import progress
from rlox_cli.runs import plot, run_folder
from rlox_cli.runs.provenance import cpu_model
from rlox_cli.runs.run_folder import read_config, read_status
from rlox_cli.shell.exit_codes import exit_code

LEARNING_CURVE = plot.learning_curve
RESULT_KEYS = {
    "schema_version",
    "status",
    "algo",
    "env",
    "seed",
    "env_steps",
    "score",
    "score_iqm",
    "score_ci95",
    "episodes",
    "train_return_last100",
    "seconds",
    "steps_per_second",
}


def test_a_run_writes_its_configuration_logs_checkpoint_and_plot(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "learning_curve", LEARNING_CURVE)
    result = cli("train", *TINY, "total_steps=300", "logger=[csv,tensorboard]", "seed=5")
    assert result.code == 0, result.err
    run = only_run(tmp_path / "runs")
    for name in (
        ".hydra/overrides.yaml",
        "metrics.jsonl",
        "episodes.jsonl",
        "metrics.csv",
        "tb",
        "log.txt",
        "checkpoints/last/manifest.json",
        "plots/learning_curve.png",
    ):
        assert (run / name).exists(), name
    assert read_config(run)["seed"] == 5
    assert read_status(run)["status"] == "done"
    assert read_status(run)["step"] == 384


def test_a_failing_logger_prints_a_message_but_does_not_fail_the_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, rows: Any) -> None:
        raise OSError("no such server")

    monkeypatch.setattr("rlox.loggers.csv.CsvSink.write", refuse)
    monkeypatch.setattr("rlox.runs.journal.CLOSE_SECONDS", 0.1)
    result = cli("train", *TINY, "log.every=128", "logger=csv")
    assert result.code == 0
    assert "logger csv lacks 3 rows: no such server; metrics.jsonl has every row" in result.err
    assert read_status(only_run(tmp_path / "runs"))["status"] == "done"


def test_the_result_has_the_agreed_keys_and_true_numbers(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "total_steps=300", "eval.episodes=8").code == 0
    data = json.loads((only_run(tmp_path / "runs") / "result.json").read_text())
    assert set(data) >= RESULT_KEYS
    assert (data["schema_version"], data["status"], data["reason"]) == (1, "done", "total_steps")
    assert (data["algo"], data["env"], data["seed"]) == ("ppo", "CartPole-v1", 0)
    assert data["env_steps"] == 384
    episodes = sorted(data["episodes"])
    assert len(episodes) == 8
    assert data["score"] == pytest.approx(sum(episodes) / 8)
    assert data["score_iqm"] == pytest.approx(sum(episodes[2:6]) / 4)
    low, high = data["score_ci95"]
    assert low <= data["score"] <= high
    parts = {"total", "collect", "update", "evaluate"}
    assert set(data["seconds"]) == set(data["steps_per_second"]) == parts
    assert data["steps_per_second"]["total"] == pytest.approx(384 / data["seconds"]["total"])
    played = sum(data["episodes"]) / data["seconds"]["evaluate"]  # CartPole gives one reward per step
    assert data["steps_per_second"]["evaluate"] == pytest.approx(played)


def test_the_closing_summary_says_score_rounding_and_folder(cli: Cli, tmp_path: Path) -> None:
    out = cli("train", *TINY, "total_steps=300").out
    run = only_run(tmp_path / "runs").relative_to(tmp_path)
    assert "384 (total_steps=300 rounded up to rollouts of 128)" in out
    assert "mean of 3 evaluation episodes (95% CI" in out
    assert f"folder  {run}" in out
    assert "steps 384/384" in out


def test_a_dataset_run_counts_updates_and_prints_no_training_return(cli: Cli) -> None:
    folder = Path(__file__).parents[2] / "golden" / "datasets" / "CartPole-v1"
    given = (f"buffer.path={folder}", "algo.net_arch=[4]", "total_steps=20", "eval.episodes=1")
    result = cli("train", "algo=bc", *given)
    assert result.code == 0, result.err
    assert "bc on CartPole-v1, seed 0, 20 updates\n" in result.out
    assert "\nupdates 20/20  " in result.out
    assert " updates/s  left 0:00" in result.out
    assert "\n  updates 20\n" in result.out
    assert re.search(r"\n  score   [\d.]+ in 1 evaluation episode\n", result.out)
    assert not {"steps", "return"} & set(result.out.replace("/", " ").split())


def test_provenance_records_command_versions_machine_and_seeds(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "seed=5").code == 0
    data = json.loads((only_run(tmp_path / "runs") / "provenance.json").read_text())
    assert data["command"].startswith("rlox train tuned=null")
    assert data["seeds"] == {"run": 5, "eval": 100_000}
    assert data["threads"]["torch"] == 1
    assert data["cpu"]["model"] and data["cpu"]["cores"] >= 1
    assert data["packages"]["torch"] and data["packages"]["gymnasium"]
    assert set(data) >= {"git", "gpu", "wheel", "python", "platform", "started"}


def test_processors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Their sums differ in the last bit, so they count as two machine types."""
    said = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\nstepping\t: 1\n"
    for model in (1, 17):
        (tmp_path / f"{model}").write_text((said.format(model) + "\n") * 2)
    assert cpu_model(tmp_path / "1") == "AMD EPYC (family 25, model 1, stepping 1)"
    assert cpu_model(tmp_path / "17") == "AMD EPYC (family 25, model 17, stepping 1)"
    (tmp_path / "arm").write_text("processor\t: 0\nBogoMIPS\t: 243.75\n")
    assert cpu_model(tmp_path / "arm") == cpu_model(tmp_path / "none") != ""


def test_a_run_needs_no_call_that_only_linux_has(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text = Path.read_text

    def without_proc(self: Path, *args: Any, **options: Any) -> str:
        if self.is_relative_to("/proc") or self.is_relative_to("/sys"):
            raise FileNotFoundError(self)
        return read_text(self, *args, **options)

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(Path, "read_text", without_proc)
    monkeypatch.setattr("sys.platform", "darwin")
    result = cli("train", *TINY, "checkpoint.every=128")
    assert result.code == 0, result.err
    run = only_run(tmp_path / "runs")
    data = json.loads((run / "provenance.json").read_text())
    assert data["cpu"]["cores"] == os.cpu_count()
    assert cli("resume", str(run), "total_steps=512").code == 0
    assert cli("evaluate", str(run), "episodes=1").code == 0


def test_a_dry_run_builds_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    result = cli("train", "dry_run=true")
    assert (result.code, list(tmp_path.iterdir())) == (0, [])
    assert "tuned preset ppo/CartPole-v1" in result.out
    assert cli("train", "dry_run=true", "env=DictObs-v0").code == 2


def test_a_named_run_folder_is_used_and_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    assert cli("train", *TINY, "hydra.run.dir=here").code == 0
    before = (tmp_path / "here" / "status.json").read_text()
    result = cli("train", *TINY, "hydra.run.dir=here")
    assert (result.code, "not empty" in result.err) == (2, True)
    assert (tmp_path / "here" / "status.json").read_text() == before
    assert cli("train", "hydra.run.dir=there", "env=DictObs-v0").code == 2
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(""), 2),
        (ShapeError(""), 2),
        (MissingExtraError(""), 2),
        (NonFiniteError(""), 3),
        (EnvError(""), 4),
        (StorageError(""), 5),
        (CheckpointError(""), 1),
        (ValueError(""), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(("error", "code"), [(NonFiniteError("loss is nan"), 3), (KeyError("k"), 1)])
def test_a_run_that_fails_says_where_the_traceback_is(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(self: Any) -> None:
        raise error

    monkeypatch.setattr(rlox.runs.session.Session, "run", fail)
    result = cli("train", *TINY)
    run = only_run(tmp_path / "runs")
    assert result.code == code
    assert "Traceback" not in result.err
    assert str(run.relative_to(tmp_path) / "log.txt") in result.err
    assert "Traceback" in (run / "log.txt").read_text()
    assert read_status(run)["status"] == "failed"


def test_an_environment_that_breaks_ends_the_run_as_failed(cli: Cli, tmp_path: Path) -> None:
    result = cli("train", *TINY, "env=Breaking-v0")
    assert result.code == 4
    assert "the motor burnt out" in result.err
    assert read_status(only_run(tmp_path / "runs"))["status"] == "failed"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_result_is_written_leaves_a_finished_run(
    signum: signal.Signals, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "learning_curve", lambda run: os.kill(os.getpid(), signum))
    result = cli("train", *TINY)
    assert result.code == 0, result.err
    run = only_run(tmp_path / "runs")
    assert read_status(run)["status"] == "done"
    assert f"folder  {run.relative_to(tmp_path)}" in result.out


def test_a_plot_that_fails_does_not_lose_the_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Path) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr(plot, "learning_curve", fail)
    result = cli("train", *TINY)
    assert (result.code, "no fonts" in result.err) == (0, True)
    assert read_status(only_run(tmp_path / "runs"))["status"] == "done"


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_while_training_saves_and_ends_as_killed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def interrupt(self: Any, now: Any) -> None:
        if now.now == 256:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(progress.LineReporter, "__call__", interrupt)
    before = signal.getsignal(number)
    result = cli("train", *TINY, "total_steps=1e6")
    run = only_run(tmp_path / "runs")
    assert result.code == code
    assert signal.getsignal(number) == before
    assert (read_status(run)["status"], read_status(run)["reason"]) == ("killed", "signal")
    assert (run / "checkpoints" / "last" / "manifest.json").exists()
    assert json.loads((run / "result.json").read_text())["score"] is None
    again = f"rlox resume {run.relative_to(tmp_path)}"
    assert f"\n  resume  {again}\n" in result.out
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    finished = cli(*again.split()[1:], "total_steps=512")
    assert finished.code == 0, finished.err
    assert read_status(run)["status"] == "done"


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_before_training_leaves_no_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(rlox.build, "build", lambda config: os.kill(os.getpid(), number))
    assert cli("train", *TINY).code == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["write_config", "write_json"])
def test_a_signal_while_the_run_folder_is_made_leaves_no_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(run_folder, file, lambda *args: os.kill(os.getpid(), signal.SIGINT))
    assert cli("train", *TINY).code == 130
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_keyboard_interrupt_from_anywhere_is_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(config: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rlox.build, "build", interrupt)
    assert cli("train", *TINY).code == 130


def test_a_second_signal_leaves_at_once() -> None:
    script = (
        "import os, signal, time\n"
        "from rlox_cli.runs.signals import Signals\n"
        "with Signals() as signals, signals.call_on_signal(lambda: None):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still saving', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(600)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "still saving\n")


@pytest.mark.parametrize("then", [signal.SIGHUP, signal.SIGTERM])
def test_a_hangup_and_the_signal_after_it_count_as_one(then: int) -> None:
    script = (
        "import os, signal\n"
        "from rlox_cli.runs.signals import Signals\n"
        "with Signals() as signals, signals.call_on_signal(lambda: None):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        f"    os.kill(os.getpid(), {int(then)})\n"
        "    print('saved', signals.received_signal)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "saved 1\n")


def test_a_run_under_nohup_ignores_the_hangup_signal() -> None:
    script = (
        "import os, signal\n"
        "from rlox_cli.runs.signals import Signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with Signals() as signals:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print(signals.received_signal)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "None\n")


def test_a_run_that_fails_after_a_checkpoint_says_how_to_go_on(cli: Cli, tmp_path: Path) -> None:
    result = cli(
        "train", *TINY, "env=Breaking-v0", "env.kwargs.after=60", "env.n_envs=1", "algo.n_steps=16",
        "algo.batch_size=16", "checkpoint.every=16",
    )  # fmt: skip
    run = only_run(tmp_path / "runs").relative_to(tmp_path)
    assert result.code == 4
    assert result.err.splitlines()[-1] == f"  to go on: rlox resume {run}"


def test_the_progress_bar_formats_durations_as_hours_minutes_seconds() -> None:
    shown = [progress.format_duration(s) for s in (None, float("inf"), 42.0, 725.0, 11_240.0)]
    assert shown == ["-:--", "-:--", "0:42", "12:05", "3:07:20"]


def test_ctrl_c_before_anything_is_imported_shows_no_traceback(tmp_path: Path) -> None:
    # the first import of the command sends the signal, as a user does who presses Ctrl-C at once
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Hasty:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'rlox_cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hasty())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for line in ((Path(sys.executable).with_name("rlox"),), (sys.executable, "-m", "rlox")):
        done = subprocess.run(
            [*line, "train"], capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=environment,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
