"""Checkpoint folders of one's own with the names of those of a run: what is named is what is loaded."""

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
    """`checkpoints/` with one of each name of 64 steps, and one of 32 steps."""
    folder = tmp_path_factory.mktemp("made")
    algorithm = PPO("CartPole-v1", callbacks=[CheckpointCallback(32, folder / "checkpoints")], **SMALL)
    algorithm.train(64)
    for name in OWN_NAMES[:2]:
        algorithm.save(folder / "checkpoints" / name)
    return folder


@pytest.fixture
def own_dir(trained_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the checkpoints, in the folder that is the current one."""
    shutil.copytree(trained_dir / "checkpoints", tmp_path / "checkpoints")
    monkeypatch.chdir(tmp_path)
    return Path("checkpoints")


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("name", OWN_NAMES)
def test_a_folder_of_ones_own_is_loaded_whatever_its_name_and_what_is_beside_it(
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


def test_a_folder_of_ones_own_is_loaded_beside_another_ones_checkpoint_of_the_same_step(
    own_dir: Path,
) -> None:
    shutil.rmtree(own_dir / "step-000000000064")
    other = PPO("CartPole-v1", seed=5, **SMALL)
    other.train(64)
    other.save(own_dir / "step-000000000064")
    (own_dir.parent / "config.yaml").touch()
    for name in ("last", "best"):
        assert resolve_checkpoint(own_dir / name) == own_dir / name


def test_a_damaged_folder_of_ones_own_is_named_and_nothing_is_taken_in_its_place(
    own_dir: Path,
) -> None:
    (own_dir / "last" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"checkpoints/last/weights\.safetensors"):
        PPO.from_checkpoint("checkpoints/last")
    (own_dir / "last" / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"checkpoints/last/manifest\.json is damaged"):
        PPO.from_checkpoint("checkpoints/last")
    shutil.rmtree(own_dir / "last")  # a run would have one beside it
    with pytest.raises(CheckpointError, match="checkpoints/last has no checkpoint"):
        PPO.from_checkpoint("checkpoints/last")


def test_a_folder_of_ones_own_is_taken_from_where_it_waits_for_the_one_that_replaces_it(
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
def test_a_copied_link_of_a_run_leads_to_the_runs_checkpoint(
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


def test_a_link_to_a_checkpoint_that_is_gone_is_no_best(own_dir: Path) -> None:
    """The log then says which of those that are there is."""
    shutil.rmtree(own_dir / "best")
    (own_dir / "best").symlink_to("step-000000000016")
    Path("metrics.jsonl").write_text(BEST_ROW)
    found = best_checkpoint(Path())
    assert found is not None
    assert found.name == OLDER_NAME
