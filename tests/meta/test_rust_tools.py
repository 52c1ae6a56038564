"""Tests the fuzzer, cargo-deny and miri: the counts, the failures of a stage, reports of missing tools."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import rust_tools
from fresh_environments import NOT_AVAILABLE

ENDED = "#2\tINITED\n#8192\tpulse\nDone 20000 runs in 3 second(s)\nstat::number_of_executed_units: 20000\n"
CRASHED = "#2\tINITED\n#517\tNEW    cov: 3\nthread panicked\n==7== ERROR: libFuzzer: deadly signal\n"


@pytest.mark.parametrize(("output", "count"), [(ENDED, 20_000), (CRASHED, 517), ("no such file", 0)])
def test_executions_are_counted_from_libfuzzers_output(output: str, count: int) -> None:
    assert rust_tools.count_executions(output) == count


def test_every_target_has_a_small_corpus_and_is_built() -> None:
    names = rust_tools.targets()
    folder = rust_tools.FUZZ / "corpus"
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    assert sorted(names) == sorted(path.stem for path in (rust_tools.FUZZ / "targets").iterdir())
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert max(sizes) <= rust_tools.MAX_INPUT_BYTES
    assert sum(sizes) < 2_000_000


def test_cargo_deny_audits_every_workspace() -> None:
    found = {
        str(path.relative_to(rust_tools.ROOT))
        for path in (rust_tools.ROOT / "Cargo.toml", *rust_tools.ROOT.glob("rust/*/Cargo.toml"))
        if "workspace" in tomllib.loads(path.read_text(encoding="utf-8"))
    }
    assert set(rust_tools.MANIFESTS) == found


@pytest.mark.parametrize(("codes", "crashes", "hangs"), [((0, 0), 0, 0), ((77, 0), 1, 0), ((70, -6), 1, 1)])
def test_a_crash_or_a_hang_of_a_fuzz_target_fails_the_stage(
    codes: tuple[int, int],
    crashes: int,
    hangs: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = dict(zip(("segment", "policy"), codes, strict=True))
    monkeypatch.setattr(rust_tools, "need_nightly", lambda: None)
    monkeypatch.setattr(rust_tools, "need_tool", lambda name: None)
    monkeypatch.setattr(rust_tools, "run", lambda *command: 0)
    monkeypatch.setattr(rust_tools, "fuzz_target", lambda name, *bounds: (10, ended[name]))
    record = tmp_path / "record.json"
    code = rust_tools.main(["fuzz", "segment", "policy", "--record", str(record)])
    told = json.loads(record.read_text(encoding="utf-8"))
    assert (told["executions"], told["crashes"], told["hangs"]) == (20, crashes, hangs)
    assert code == int(crashes + hangs > 0)


def test_a_target_that_tried_no_input_fails_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("need_nightly", "need_tool", "run"):
        monkeypatch.setattr(rust_tools, name, lambda *arguments: 0)
    monkeypatch.setattr(rust_tools, "fuzz_target", lambda name, *bounds: (0, 0))
    with pytest.raises(SystemExit, match="the fuzz target policy tried no input"):
        rust_tools.main(["fuzz", "policy"])


def no_answer(*command: str) -> str:
    return ""


def failing(*command: str) -> int:
    return 101


@pytest.mark.parametrize(
    ("check", "answers", "sentence"),
    [
        ("fuzz", no_answer, "no nightly toolchain"),
        ("miri", no_answer, "no nightly toolchain"),
        ("miri", lambda *command: "" if "miri" in command else "cargo 1", "no miri"),
        ("fuzz", lambda *command: "cargo 1", "cargo-fuzz is not installed"),
        ("deny", no_answer, "cargo-deny is not installed"),
    ],
)
def test_a_missing_tool_is_named_and_the_stage_is_not_available(
    check: str, answers: Callable[..., str], sentence: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(rust_tools, "command_output", answers)
    monkeypatch.setattr(rust_tools, "run", failing)
    monkeypatch.setattr(rust_tools.shutil, "which", lambda name, path: None)
    assert rust_tools.main([check]) == NOT_AVAILABLE
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("not available: ")
    assert sentence in last


@pytest.mark.parametrize(
    ("told", "ended", "code"),
    [
        ("test result: ok. 4 passed; 0 failed", 0, 0),
        ("test result: ok. 0 passed; 0 failed", 0, 1),  # no test has the name
        ("test result: FAILED. 3 passed; 1 failed", 101, 1),
        ("", -9, 1),
    ],
)
def test_the_stage_of_miri_fails_unless_a_test_of_each_name_passes(
    told: str, ended: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, ended, told)

    monkeypatch.setattr(rust_tools, "command_output", lambda *command: "cargo 1")
    monkeypatch.setattr(rust_tools.subprocess, "run", ran)
    record = tmp_path / "record.json"
    assert rust_tools.main(["miri", "--record", str(record)]) == code
    passed = json.loads(record.read_text(encoding="utf-8"))["passed"]
    assert set(passed.values()) == {4 if code == 0 else 0}


@pytest.mark.parametrize(
    ("failing", "failures", "checked"),
    [(None, 0, 3), ("fetch", 0, 0), ("licenses", 3, 3), ("advisories", 3, 3)],
)
def test_a_workspace_that_cargo_deny_refuses_fails_the_stage(
    failing: str | None, failures: int, checked: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    commands: list[tuple[str, ...]] = []

    def ran(*command: str) -> int:
        commands.append(command)
        return int(failing in command)

    monkeypatch.setattr(rust_tools, "need_tool", lambda name: None)
    monkeypatch.setattr(rust_tools, "run", ran)
    record = tmp_path / "record.json"
    assert rust_tools.main(["deny", "--record", str(record)]) == int(failures > 0)
    told = json.loads(record.read_text(encoding="utf-8"))
    assert told == {"workspaces": 3, "failures": failures, "advisories_checked": checked}
    assert {command[4] for command in commands} == set(rust_tools.MANIFESTS)
    # Only names follow the subcommand, because the options there differ between versions.
    asked = {" ".join(command[5:]) for command in commands}
    assert asked <= {"check bans licenses sources", "fetch db", "check advisories"}
