"""The script that records datasets: none is lost by it, and a mistake is one line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rlox.algorithms import PPO
from rlox.errors import ConfigError
from rlox.runs.record import record
from rlox.sources.dataset_file import read_dataset

SCRIPT = Path(__file__).parents[3] / "experiments" / "behavioural_cloning" / "record.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "ppo"
    PPO("CartPole-v1", n_envs=1, net_arch=(4,)).save(folder)
    return folder


def test_a_dataset_is_kept_unless_it_is_said_otherwise(
    script: ModuleType, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(saved), str(tmp_path / "data")]
    assert script.main([*given, "--episodes", "2"]) == 0
    first = read_dataset(tmp_path / "data")
    assert f"{len(first.columns['rewards'])} transitions of 2 episodes" in capsys.readouterr().out
    assert script.main([*given, "--episodes", "3"]) == 2
    assert "has a dataset already; choose another folder or --overwrite" in capsys.readouterr().err
    assert read_dataset(tmp_path / "data").digest == first.digest
    assert script.main([*given, "--episodes", "3", "--overwrite"]) == 0
    assert len(read_dataset(tmp_path / "data").about["returns"]) == 3


def test_a_recording_without_episodes_is_refused_from_python_too() -> None:
    with pytest.raises(ConfigError, match="episodes=0: expected at least 1"):
        record(PPO("CartPole-v1", n_envs=1, net_arch=(4,)), 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("nowhere", "data"), "nowhere"),
        (("RUN", "data", "--episodes", "0"), "--episodes 0: expected at least 1"),
        (("RUN", "data", "--episodes", "-3"), "--episodes -3: expected at least 1"),
        (("RUN", "data", "--episodes", "many"), "many"),
        (("RUN",), "folder"),
        (("RUN", "file"), "file is a file, expected a folder"),
        (("RUN", "file/data"), "file"),
        (("file", "data"), "file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    script: ModuleType,
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert script.main([arg.replace("RUN", str(saved)) for arg in given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("record.py: ")
    assert told in line
    assert not Path("data").exists()
