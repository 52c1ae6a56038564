"""Tests that `rlox doctor` lists installed and missing parts, and exits with 1 without a necessary one."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from helpers.cli import Cli
from helpers.packages import EXAMPLE_POINTS, Install

from rlox.parameters import self_test
from rlox.runs.preflight import memory_limit
from rlox_cli.health import doctor as diagnosis
from rlox_cli.health import requirements


def lines(out: str, first: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith(f"  {first:<11}  ")]


def test_a_healthy_machine_ends_with_0_in_80_columns(cli: Cli, install: Install) -> None:
    install("rlox-example", EXAMPLE_POINTS | {"algo.ppo": "mine:A"})
    result = cli("doctor")
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 80
    assert result.out.startswith(f"rlox {importlib.metadata.version('rlox-runner')}\n")
    assert "\x1b" not in result.out
    assert lines(result.out, "numpy") == [f"  numpy        {np.__version__}"]
    assert lines(result.out, "cores")[0].endswith(f"for this process, of {os.cpu_count()}")
    assert "20,000 CartPoles step as they should" in result.out
    assert "engine       its updates match torch's" in result.out
    assert "algo.ppo: ignored: rlox has a ppo of its own" in result.out
    assert result.out.endswith("\nall that rlox needs is here and works\n")


def test_the_cartpole_step_known_to_rlox_doctor_equals_gymnasiums() -> None:
    env = gym.make("CartPole-v1").unwrapped
    env.reset()
    env.state = np.zeros(4)  # type: ignore[attr-defined]
    np.testing.assert_allclose(env.step(1)[0], diagnosis.EXPECTED_STATE, rtol=1e-6)


def test_doctor_reinstalls_a_native_module_that_does_not_import_by_the_name_of_the_distribution(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_error = diagnosis._import_error
    monkeypatch.setattr(
        diagnosis, "_import_error", lambda name: "no GLIBC" if name == "rlox._core" else import_error(name)
    )
    result = cli("doctor")
    assert result.code == 1
    assert "cannot be imported: no GLIBC" in result.out
    assert "pip install --force-reinstall rlox-runner" in " ".join(result.out.split())


def test_a_native_module_that_steps_wrongly_is_broken(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "EXPECTED_STATE", (0.0, 0.2, 0.0, -0.3))
    result = cli("doctor")
    assert result.code == 1
    assert "BROKEN: a step of CartPole gives" in result.out
    assert result.out.endswith("\nbroken: rlox._core\n")


def test_rlox_doctor_reports_a_native_engine_that_differs_from_torch(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_test, "self_test_mismatch", lambda: "ppo gives 1, expected 2")
    result = cli("doctor")
    assert result.code == 1
    assert "engine       BROKEN: ppo gives 1, expected 2; please report it" in result.out
    assert result.out.endswith("\nbroken: engine\n")


def test_rlox_doctor_calls_missing_dependencies_broken_but_not_missing_extras(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "rlox-runner": [
            "numpy>=2", "no-such>=1", "gymnasium<1", "gymnasium[toy] ; extra == 'games'",
            "numpy ; extra == 'fine'", "pytest ; extra == 'dev'",
        ],
        "gymnasium": ["no-toys>=3 ; extra == 'toy'", "numpy"],
    }  # fmt: skip
    monkeypatch.setattr(importlib.metadata, "requires", asked.__getitem__)
    monkeypatch.setattr(requirements, "_declared_extras", lambda: ["games", "fine", "dev"])
    monkeypatch.setattr(diagnosis, "_import_error", lambda module: None)
    result = cli("doctor")
    assert result.code == 1
    assert lines(result.out, "numpy") == [f"  numpy        {np.__version__}"]
    assert lines(result.out, "no-such") == ["  no-such      BROKEN: is missing; pip install 'no-such>=1'"]
    assert f"BROKEN: is {gym.__version__}, expected <1" in result.out
    assert lines(result.out, "games") == ["  games        missing; pip install 'gymnasium[toy]'"]
    assert lines(result.out, "fine") == [f"  fine         numpy {np.__version__}"]
    assert lines(result.out, "dev") == []
    assert result.out.endswith("\nbroken: no-such, gymnasium\n")


def test_rlox_doctor_names_extras_added_after_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "pyproject.toml"
    monkeypatch.setattr(requirements, "PYPROJECT", project)
    monkeypatch.setattr(requirements, "_declared_extras", lambda: ["old", "dev"])
    monkeypatch.setattr(requirements, "_requirements_of", lambda package, extra: iter(()))
    assert "not listed" not in [finding.subject for finding in diagnosis._extras()]  # as from a wheel
    extras = "[project.optional-dependencies]\nold = []\nnewer = []\npeers = []\n"
    project.write_text('[project]\nname = "another"\n' + extras)
    assert requirements.undeclared_extras() == []
    project.write_text('[project]\nname = "rlox-runner"\n' + extras)
    told = {finding.subject: finding.message for finding in diagnosis._extras()}["not listed"]
    assert told.startswith("newer: these extras were added after rlox was installed from this checkout")
    assert told.endswith("pip install -e .")


def test_rlox_doctor_reports_a_broken_hydra(tmp_path: Path) -> None:
    (tmp_path / "hydra").mkdir()
    (tmp_path / "hydra/__init__.py").write_text("raise ImportError('half of it is missing')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-m", "rlox_cli.main", "doctor"], capture_output=True, text=True,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    assert "cannot be imported: ImportError: half of it is missing" in " ".join(ran.stdout.split())
    assert "--force-reinstall 'hydra-core==" in " ".join(ran.stdout.split())
    assert ran.stderr == ""


def test_rlox_doctor_reports_a_run_root_that_cannot_hold_folders(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = cli("doctor", "run_root=file/runs")
    assert (result.code, "is a file; choose a folder" in " ".join(result.out.split())) == (1, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_the_memory_and_cores_of_a_control_group_count(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       8192 kB\nMemAvailable:   4096 kB\n")
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "cpu.max").write_text("max 100000\n")
    assert memory_limit(tmp_path) == 8192 * 1024
    assert diagnosis._quota(tmp_path) == ""
    (group / "memory.max").write_text("1048576\n")
    (group / "cpu.max").write_text("150000 100000\n")
    assert memory_limit(tmp_path) == 1 << 20
    assert diagnosis._quota(tmp_path) == "; its control group allows it the CPU time of 1.5 cores"


def test_rlox_doctor_lists_a_requirement_that_two_packages_share_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {
        "rlox-runner": ["numpy>=1; extra == 'sim'", "other[sim]>=1; extra == 'sim'"],
        "other": ["NumPy>=900; extra == 'sim'"],
    }
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked.get(name, []))
    monkeypatch.setattr(requirements, "_declared_extras", lambda: ["sim"])
    monkeypatch.setattr(requirements, "version", lambda name: "2.0")
    needs = requirements.extras()["sim"]
    assert [need.name.lower() for need in needs] == ["numpy", "other"]
    assert needs[0].problem == "is 2.0, expected >=900"  # of the two requirements, the one that is not met
