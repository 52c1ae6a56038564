"""Fixtures for every test: a folder, the command line, a run, installed packages.

`tests/conftest.py` loads them as a plugin, so that no test imports a fixture.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import gymnasium as gym
import pytest

from helpers.cli import TINY, Cli, DictObservation, FailingEnv, Result, only_run


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the working directory during the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cli_envs: None,
    logging_restored: None,
) -> Cli:
    """Return a function that calls `rlox` with arguments, in this process and in an empty folder."""
    from rlox_cli.main import main
    from rlox_cli.runs import plot

    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.delenv("RLOX_CONF_PATH", raising=False)
    # Drawing takes longer than these runs; tests of the picture restore it.
    monkeypatch.setattr(plot, "learning_curve", lambda run: None)

    def call(*args: str) -> Result:
        capsys.readouterr()
        code = main(args)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def cli_envs() -> Iterator[None]:
    """Register `DictObs-v0`, which no algorithm can use, and `Breaking-v0`, which raises after some steps."""
    added = {"DictObs-v0": DictObservation, "Breaking-v0": FailingEnv}
    for name, cls in added.items():
        gym.register(name, cls)
    yield
    for name in added:
        gym.registry.pop(name)


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """Restore logging, because Hydra's --info sets debug logging for the rest of the process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one short run for tests that only read it."""
    from rlox_cli.main import main

    root = tmp_path_factory.mktemp("template")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", *TINY, f"run_root={root}"]) == 0
    return only_run(root)


@pytest.fixture
def trained(cli: Cli, template: Path, tmp_path: Path) -> Path:
    """Return a copy of that run, as a path relative to the current folder."""
    target = Path("runs/CartPole-v1/ppo") / template.name
    shutil.copytree(template, tmp_path / target, symlinks=True)
    return target


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Install packages for one test (`helpers.packages.write_package`) and remove them afterwards."""
    from helpers.packages import EXAMPLE, clear_caches, write_package

    before, places = set(sys.modules), list[Path]()

    def add(name: str, points: Mapping[str, str], files: Mapping[str, str] | None = None) -> Path:
        site = write_package(tmp_path_factory.mktemp("site"), name, points, files)
        places.append(site)
        monkeypatch.syspath_prepend(site)
        if any(value.startswith("rlox_example") for value in points.values()):
            monkeypatch.syspath_prepend(EXAMPLE)
            places.append(EXAMPLE)
        clear_caches()
        return site

    yield add
    for module in set(sys.modules) - before:
        home = getattr(sys.modules[module], "__file__", None) or ""
        if any(str(folder) in home for folder in places):
            del sys.modules[module]
    clear_caches()
