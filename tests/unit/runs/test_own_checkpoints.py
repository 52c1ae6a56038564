"""Tests that rlox loads exactly the named folder if a user's checkpoint has the name of a run's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlox.algorithms import PPO
from rlox.callbacks import CheckpointCallback
from rlox.errors import CheckpointError
from rlox.runs.checkpoint import best_checkpoint, read_checkpoint, resolve_checkpoint

SMALL: dict[str, Any] = {
    "n_envs": 1, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": (4,), "backend": "native",
}  # fmt: skip
OWN_NAMES = ["last", "best", "step-000000000064"]
OLDER_NAME = "step-000000000032"
BEST_ROW = '{"env_steps": 32, "updates": 2, "eval/return_mean": 9.0}\n'


def read_step(folder: Path) -> int:
    return read_checkpoint(folder).clock["env_steps"]


@pytest.fixture(scope="module")
def trained_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes `checkpoints/` with a checkpoint of 64 steps under each name, and one of 32 steps."""
    folder = tmp_path_factory.mktemp("made")
    algorithm = PPO("CartPole-v1", callbacks=[CheckpointCallback(32, folder / "checkpoints")], **SMALL)
    algorithm.train(64)
    for name in OWN_NAMES[:2]:
        algorithm.save(folder / "checkpoints" / name)
    return folder


@pytest.fixture
def own_dir(trained_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies the checkpoints into the working directory."""
    shutil.copytree(trained_dir / "checkpoints", tmp_path / "checkpoints")
    monkeypatch.chdir(tmp_path)
    return Path("checkpoints")


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("name", OWN_NAMES)
def test_a_users_checkpoint_loads_under_any_name_and_beside_any_checkpoint(
    name: str, beside: bool, own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in own_dir.iterdir():
        if other.name != name and not (beside and other.name == OLDER_NAME):
            shutil.rmtree(other)
    for path in (
        own_dir / name,
        own_dir.absolute() / name,
        f"{own_dir}/{name}/",
        f"./{own_dir}/{name}",
    ):
        assert read_step(resolve_checkpoint(Path(path))) == 64
    assert PPO.from_checkpoint(f"checkpoints/{name}/").clock.env_steps == 64
    begun = PPO("CartPole-v1", init_from=f"checkpoints/{name}", **SMALL)
    assert begun.origin is not None
    assert begun.origin["env_steps"] == 64
    monkeypatch.chdir(own_dir)
    assert read_step(resolve_checkpoint(Path(name))) == 64
    monkeypatch.chdir(name)
    assert read_step(resolve_checkpoint(Path())) == 64


def test_a_users_checkpoint_loads_beside_another_runs_checkpoint_of_its_step(
    own_dir: Path,
) -> None:
    shutil.rmtree(own_dir / "step-000000000064")
    other = PPO("CartPole-v1", seed=5, **SMALL)
    other.train(64)
    other.save(own_dir / "step-000000000064")
    (own_dir.parent / "config.yaml").touch()
    for name in ("last", "best"):
        assert resolve_checkpoint(own_dir / name) == own_dir / name


def test_the_error_of_a_damaged_users_checkpoint_names_it_and_no_other_one_loads(
    own_dir: Path,
) -> None:
    (own_dir / "last" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"checkpoints/last/weights\.safetensors"):
        PPO.from_checkpoint("checkpoints/last")
    (own_dir / "last" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"checkpoints/last/manifest\.json is damaged"):
        PPO.from_checkpoint("checkpoints/last")
    shutil.rmtree(own_dir / "last")  # in a run another one would be beside it
    with pytest.raises(CheckpointError, match="checkpoints/last has no checkpoint"):
        PPO.from_checkpoint("checkpoints/last")


def test_an_interrupted_replacement_keeps_the_users_checkpoint_loadable(
    own_dir: Path,
) -> None:
    (own_dir / "last").rename(own_dir / ".last.old")
    assert read_step(resolve_checkpoint(own_dir / "last")) == 64


def replace_by_folder(link: Path) -> None:
    target = link.resolve()
    link.unlink()
    shutil.copytree(target, link)


def replace_by_empty_folder(link: Path) -> None:
    link.unlink()
    link.mkdir()


def replace_by_name(link: Path) -> None:
    name = str(link.readlink())
    link.unlink()
    link.write_text(name)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("way", [replace_by_folder, replace_by_empty_folder, replace_by_name, Path.unlink])
def test_a_copied_or_lost_link_of_a_run_resolves_to_its_checkpoint(
    way: Callable[[Path], None], inside: bool, own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OWN_NAMES[:2]:
        shutil.rmtree(own_dir / name)
    Path("metrics.jsonl").write_text(BEST_ROW)
    Path("config.yaml").touch()
    (own_dir / "last").symlink_to(OWN_NAMES[2])
    (own_dir / "best").symlink_to(OLDER_NAME)
    for name in OWN_NAMES[:2]:
        way(own_dir / name)
    if inside:
        monkeypatch.chdir(own_dir)
    at = Path() if inside else own_dir
    assert [read_step(resolve_checkpoint(at / name)) for name in ("last", "best")] == [64, 32]
    assert resolve_checkpoint(Path(".." if inside else "."), "best").name == OLDER_NAME


def test_a_broken_best_link_gives_way_to_the_logs_best_checkpoint(own_dir: Path) -> None:
    """The log then tells which existing checkpoint is the best."""
    shutil.rmtree(own_dir / "best")
    (own_dir / "best").symlink_to("step-000000000016")
    Path("metrics.jsonl").write_text(BEST_ROW)
    found = best_checkpoint(Path())
    assert found is not None
    assert found.name == OLDER_NAME
