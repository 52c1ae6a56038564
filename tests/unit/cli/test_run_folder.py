"""Tests that run folders are unique, are locked only by living processes, and record how a run ended."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.repositories import commit_all
from helpers.waiting import PATIENCE

from rlox.configs import RunConfig, make_run, to_plain
from rlox.errors import ConfigError, NonFiniteError, StorageError
from rlox_cli.runs import provenance, run_folder
from rlox_cli.runs.run_folder import RunFolder, is_locked, read_config, read_status, slug
from rlox_cli.runs.signals import SignalInterrupt


def config_in(root: Path, env: str = "CartPole-v1") -> RunConfig:
    return make_run({"run_root": str(root), "env": {"id": env}, "seed": 3})


def test_runs_started_in_the_same_second_get_different_folders(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: RunFolder.create(config_in(tmp_path)), range(60)))
    assert len({folder.path for folder in folders}) == 60
    assert all(folder.path.is_dir() for folder in folders)


def test_a_name_that_is_taken_gets_another_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["taken", "taken", "free"])
    monkeypatch.setattr(run_folder, "run_path", lambda config: tmp_path / next(names))
    first, second = RunFolder.create(RunConfig()), RunFolder.create(RunConfig())
    assert [first.path.name, second.path.name] == ["taken", "free"]


def test_names_hold_only_characters_that_survive_overrides_and_paths(tmp_path: Path) -> None:
    path = RunFolder.create(config_in(tmp_path, "ALE/Pong-v5")).path.relative_to(tmp_path)
    assert path.parts[:2] == ("ALE-Pong-v5", "ppo")
    assert "_s3_" in path.name
    assert slug("my_pkg:Env=1,2 [x]") == "my_pkg-Env-1-2-x"


def test_an_existing_folder_with_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not empty"):
        RunFolder.create(RunConfig(), tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        RunFolder.create(RunConfig(), tmp_path / "file")


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="run_root=FOLDER"):
        RunFolder.create(config_in(tmp_path / "file"))


def test_the_lock_is_held_while_the_run_lives_and_dropped_after(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    folder = RunFolder.create(config_in(tmp_path))
    with folder:
        assert is_locked(folder.path)
    assert not is_locked(folder.path)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (SignalInterrupt(2), "killed", "signal"),
        (KeyboardInterrupt(), "killed", "signal"),
        (NonFiniteError("loss is nan"), "failed", "NonFiniteError: loss is nan"),
        (ValueError("a bug"), "failed", "ValueError: a bug"),
    ],
)
def test_the_status_says_how_the_run_ended(
    tmp_path: Path, error: BaseException, status: str, reason: str
) -> None:
    folder = RunFolder.create(config_in(tmp_path))
    with pytest.raises(type(error)), folder:
        folder.start(config_in(tmp_path), {})
        assert read_status(folder.path)["status"] == "running"
        folder.update_step(640)
        raise error
    found = read_status(folder.path)
    assert (found["status"], found["reason"], found["step"]) == (status, reason, 640)
    if status == "failed":
        assert "Traceback" in (folder.path / "log.txt").read_text()


def test_the_saved_config_is_plain_and_complete(tmp_path: Path) -> None:
    config = make_run({"env": {"kwargs": {"text": "${oc.env:HOME}"}}, "algo": {"name": "ppo"}})
    folder = RunFolder.create(config, tmp_path / "run")
    folder.start(config, {})
    assert read_config(folder.path) == to_plain(config)
    assert make_run(read_config(folder.path)) == config


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "status.json"
    run_folder.write_json(target, {"status": "running"})

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder.os, "fsync", full_disk)
    with pytest.raises(StorageError, match="No space left"):
        run_folder.write_json(target, {"status": "done"})
    assert json.loads(target.read_text()) == {"status": "running"}


def test_provenance_names_the_commit_and_notices_uncommitted_changes(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("x = 1\n")
    commit = commit_all(tmp_path)
    clean = provenance.git_state(tmp_path)
    assert clean == {"sha": commit, "dirty": False, "diff_sha256": None}
    (tmp_path / "code.py").write_text("x = 2\n")
    first = provenance.git_state(tmp_path)
    (tmp_path / "code.py").write_text("x = 3\n")
    second = provenance.git_state(tmp_path)
    assert first is not None and second is not None
    assert first["dirty"] and first["sha"] == clean["sha"]
    assert first["diff_sha256"] != second["diff_sha256"]


def test_provenance_outside_a_repository_has_no_commit(tmp_path: Path) -> None:
    assert provenance.git_state(tmp_path) is None


def full_for(calls: int) -> Callable[..., Any]:
    """Return an `os.fsync` that fails with a full disk in its first `calls` calls."""
    left = iter(range(calls))

    def fsync(handle: int) -> None:
        if next(left, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")

    return fsync


def test_a_full_disk_at_the_end_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(run_folder.os, "fsync", full_for(3))
    run_folder.write_text(tmp_path / "result.json", "{}", retry_seconds=PATIENCE)
    assert (tmp_path / "result.json").read_text() == "{}"
    monkeypatch.setattr(run_folder.os, "fsync", full_for(10**6))
    with pytest.raises(StorageError, match="No space left"):
        run_folder.write_text(tmp_path / "result.json", "{1}", retry_seconds=0.05)
    assert (tmp_path / "result.json").read_text() == "{}"


def test_a_failed_heartbeat_prints_a_message_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_folder, "HEARTBEAT_SECONDS", 0.0)
    with RunFolder.create(make_run({}), tmp_path / "run") as folder:
        folder.start(make_run({}), {})
        monkeypatch.setattr(run_folder.os, "fsync", full_for(1))
        folder.update_step(64)
        assert "the run goes on; its rows wait in memory" in capsys.readouterr().err
        folder.update_step(128)
        assert read_status(folder.path)["step"] == 128
        folder.write_status("done", "total_steps")


def test_provenance_has_the_engines_of_environments_that_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provenance, "_version", {"torch": "2.15.0", "mujoco": "4.0.0"}.get)
    found = provenance.packages()
    assert (found["torch"], found["mujoco"], found["numpy"]) == ("2.15.0", "4.0.0", None)
    assert "box2d" not in found


def test_a_signal_after_the_final_status_does_not_change_it(tmp_path: Path) -> None:
    config = make_run({"seed": 1})
    with (
        pytest.raises(SignalInterrupt),
        RunFolder.create(config, tmp_path / "run") as folder,
    ):
        folder.start(config, {})
        folder.write_status("done", "total_steps")
        raise SignalInterrupt(15)  # while the run waits for its loggers
    assert read_status(tmp_path / "run")["status"] == "done"
