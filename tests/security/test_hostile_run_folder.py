"""Tests untrusted run folders: rlox imports nothing that one names, leaks nothing and contacts nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from faults.report import record

from rlox.algorithms import PPO
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint, write_checkpoint
from rlox_cli.main import main

TESTS = Path(__file__).resolve().parents[1]
SECRET = "the-secret-of-the-process"
EVIL = 'open("executed", "a").write("x")\nclass E: ...\ndef run(*a, **k): ...\n'
Tree = dict[str, Any]


def put(key: str, value: Any) -> Callable[[Tree], None]:
    """Return a function that changes a configuration."""

    def change(tree: Tree) -> None:
        *path, last = key.split(".")
        for part in path:
            tree = tree.setdefault(part, {})
        tree[last] = value

    return change


# Every field that can contain code, environment variables, or an address; {port} is a listening port.
HOSTILE: dict[str, Callable[[Tree], None]] = {
    "environment": put("env.id", "evil:Env-v0"),
    "environment with an odd name": put("env.kwargs", {"x": "evil:3x-v0"}),
    "argument of what is trusted": put("env.wrappers", [{"name": "os:E", "inner": "evil:E"}]),
    "environment in an argument": put("env.kwargs", {"x": [{"env_id": "evil:Env-v0"}]}),
    "wrapper": put("env.wrappers", ["evil:E"]),
    "wrapper with arguments": put("env.wrappers", [{"name": "evil:E", "x": 1}]),
    "reward wrapper": put("env.reward_wrappers", ["evil:E"]),
    "policy": put("algo.policy", "evil:E"),
    "policy with arguments": put("algo.policy", {"name": "evil:E", "x": "${oc.env:PROCESS_SECRET}"}),
    "secret": put("env.kwargs", {"render_mode": "${oc.env:PROCESS_SECRET}"}),
    "secret inside": put("env.kwargs", {"x": [{"y": "a${oc.env:PROCESS_SECRET}"}]}),
    "secret by default": put("env.kwargs", {"x": "${oc.env:NO_SUCH,${oc.env:PROCESS_SECRET}}"}),
    "secret as a number": put("seed", "${oc.env:PROCESS_SECRET}"),
    "secret as the environment": put("env.id", "${oc.env:PROCESS_SECRET}"),
    "secret as a module": put("env.id", "${oc.env:PROCESS_SECRET}:E-v0"),
    "secret as a label": put("run", {"name": "${oc.env:PROCESS_SECRET}", "tags": []}),
    "target": put("env._target_", "evil.run"),
    "target of a logger": put("logger", {"csv": {"name": "csv", "_target_": "evil.run"}}),
    "target of a callback": put("callbacks", [{"_target_": "evil.run"}]),
    "address of a logger": put("logger", {"wandb": {"name": "wandb", "url": "http://127.0.0.1:{port}"}}),
    "tracking address": put("logger", {"csv": {"name": "csv", "tracking_uri": "http://127.0.0.1:{port}"}}),
    "hydra": put("hydra", {"run": {"dir": "elsewhere"}, "job": {"env_set": {"X": "1"}}}),
    "search path": put("hydra.searchpath", ["file://evil_conf", "pkg://evil"]),
}  # fmt: skip
# Fields that only training uses: evaluation works without them.
IDLE = {"callback": put("callbacks", ["evil:run"])}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    arguments = (
        "tuned=null",
        "total_steps=64",
        "algo.n_steps=16",
        "env.n_envs=4",
        "eval.episodes=1",
    )
    assert main(["train", *arguments, f"hydra.run.dir={folder}"]) == 0
    return folder


def hostile(template: Path, target: Path, change: Callable[[Tree], None], port: int) -> Path:
    """Copy the run, with the change in its configuration, its checkpoints and its .hydra files."""
    shutil.copytree(template, target, symlinks=True)
    tree = yaml.safe_load((target / "config.yaml").read_text())
    change(tree)
    text = yaml.safe_dump(tree).replace("{port}", str(port))
    (target / "config.yaml").write_text(text)
    (target / ".hydra" / "config.yaml").write_text(text + "\n_target_: evil.run\n")
    (target / ".hydra" / "hydra.yaml").write_text("hydra: {launcher: {_target_: evil.run}}\n")
    checkpoint = resolve_checkpoint(target)
    saved = read_checkpoint(checkpoint)
    own = json.loads(json.dumps(dict(saved.config)))
    change(own)
    write_checkpoint(
        checkpoint, replace(saved, config=json.loads(json.dumps(own).replace("{port}", str(port))))
    )
    (target / "evil.py").write_text(EVIL)
    return target


@pytest.fixture
def listening() -> Any:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        server.settimeout(0.05)
        yield server


def audited(folder: Path, commands: list[list[str]], loaded: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "faults.audit", json.dumps(commands), json.dumps(loaded), "evil"],
        cwd=folder, text=True, capture_output=True, check=False,
        env={**os.environ, "PROCESS_SECRET": SECRET, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_commands_on_a_hostile_run_folder_import_and_contact_nothing(
    template: Path, tmp_path: Path, listening: socket.socket
) -> None:
    (tmp_path / "evil.py").write_text(EVIL)  # an import would find it here
    port = listening.getsockname()[1]
    names = [*HOSTILE, *IDLE]
    for number, change in enumerate([*HOSTILE.values(), *IDLE.values()]):
        hostile(template, tmp_path / f"{number}_job", change, port)
    commands, loaded = [], []
    for number in range(len(names)):
        run = f"{number}_job"
        commands += [["resume", run, "total_steps=128"], ["evaluate", run, "episodes=1"]]
        loaded.append(run)
    commands += [["list", "runs", "run_root=."]]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.name != ".lock"}
    found = audited(tmp_path, commands, loaded)
    ends = found["ends"]
    told = {
        name: [ends[2 * i][0], ends[2 * i + 1][0], ends[len(commands) + i][0]] for i, name in enumerate(names)
    }
    record("hostile_run_folder", {"codes": told, "events": found["events"]})
    assert found["events"] == []
    assert not list(tmp_path.rglob("executed"))
    with pytest.raises(TimeoutError):
        listening.accept()
    assert SECRET not in json.dumps(found)
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert not [path for path, data in after.items() if SECRET.encode() in data]
    assert "Traceback" not in "".join(err for _, _, err in ends)
    label = told.pop("secret as a label")  # an ordinary text: written, shown, not resolved
    assert label == [0, 0, 0]
    callback = told.pop("callback")
    assert callback == [2, 0, 0]
    dropped = {name: told.pop(name) for name in ("hydra", "search path")}
    assert {codes[0] for codes in dropped.values()} <= {0, 2}
    for name, codes in told.items():
        assert codes[:2] == [2, 2], (name, codes)
        assert codes[2] in ("ConfigError", "UnknownNameError"), (name, codes)
    refused = {tmp_path / f"{names.index(name)}_job" for name in told}
    changed = [p for p in before if after.get(p) != before[p] and set(p.parents) & refused]
    assert changed == []


def test_the_audit_record_detects_imported_code(
    template: Path, tmp_path: Path, listening: socket.socket
) -> None:
    """The negative control: a trusted folder imports the same code, and the hook records it."""
    (tmp_path / "evil.py").write_text(EVIL)
    hostile(template, tmp_path / "job", HOSTILE["wrapper"], 0)
    found = audited(tmp_path, [["evaluate", "job", "trust=true"]], [])
    assert "exec evil" in found["events"]
    assert (tmp_path / "executed").exists()


def test_a_hostile_checkpoint_behind_a_harmless_configuration_runs_no_code(
    template: Path, tmp_path: Path
) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    run = hostile(template, tmp_path / "job", HOSTILE["wrapper"], 0)
    shutil.copyfile(template / "config.yaml", run / "config.yaml")
    commands = [["resume", "job", "total_steps=128"], ["evaluate", "job"]]
    found = audited(tmp_path, commands, ["job"])
    assert found["events"] == []
    assert [end[0] for end in found["ends"]] == [2, 2, "ConfigError"], found["ends"]


def test_code_given_in_python_replaces_the_code_of_the_folder(template: Path, tmp_path: Path) -> None:
    """Objects and paths that the user passes replace those that the folder names."""
    run = hostile(template, tmp_path / "job", HOSTILE["policy"], 0)
    algorithm = PPO.from_checkpoint(run, policy="helpers.user_code:wide_net")
    assert algorithm.predict([0.0, 0.0, 0.0, 0.0]) in (0, 1)


def test_a_sweep_does_not_reuse_a_hostile_job_folder(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    sweep = ["sweep", "tuned=null", "total_steps=64", "algo.n_steps=16", "env.n_envs=4", "seed=0",
             "eval.episodes=1", "hydra.sweep.dir=sweep"]  # fmt: skip
    assert main(sweep) == 0
    (job,) = (tmp_path / "sweep").glob("0_*")
    shutil.rmtree(job)
    hostile(template, job, IDLE["callback"], 0)
    status = json.loads((job / "status.json").read_text())
    (job / "status.json").write_text(json.dumps(status | {"status": "killed"}))
    found = audited(tmp_path, [sweep], [])
    assert found["events"] == []
    assert found["ends"][0][0] == 0, found["ends"]
    assert not (tmp_path / "executed").exists()
    assert (job.parent / f"{job.name}.attempt1").is_dir()  # the former folder is kept


def test_a_link_in_the_folder_of_a_sweep_writes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("precious")
    for link in ("sweep/multirun.yaml", "sweep/0_seed-0/log.txt"):
        shutil.rmtree("sweep", ignore_errors=True)
        (tmp_path / link).parent.mkdir(parents=True)
        (tmp_path / link).symlink_to(tmp_path / "mine")
        assert main(["sweep", "seed=0", "total_steps=64", "hydra.sweep.dir=sweep"]) == 2
        assert f"{link} is a link to {tmp_path}/mine" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("name", [".lock", "log.txt", "eval", "metrics.jsonl", "videos/last.mp4", "last"])
def test_a_link_in_a_run_folder_writes_nowhere(
    template: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine"
    shutil.copytree(template, run, symlinks=True)
    if name == "eval":
        mine.mkdir()
    else:
        mine.write_text("precious")
    link = run / name
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mine)
    for command in (["resume", str(run), "total_steps=128"], ["evaluate", str(run), "episodes=1"]):
        assert main(command) in (2, 5)
    assert f"{link} is a link to" in capsys.readouterr().err
    assert list(mine.iterdir()) == [] if name == "eval" else mine.read_text() == "precious"


def test_init_from_refuses_a_hostile_checkpoint_with_a_clear_error(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, state in enumerate(({}, {"source": "x"}, {"source": {"obs_normalizer": {"a": 1}}})):
        run = tmp_path / str(number)
        shutil.copytree(template, run, symlinks=True)
        saved = read_checkpoint(resolve_checkpoint(run))
        write_checkpoint(resolve_checkpoint(run), replace(saved, state=state))
        assert main(["train", "tuned=null", f"init_from={run}", "dry_run=true"]) == 2
        assert f"init_from={run}: " in capsys.readouterr().err


def test_a_name_from_a_stranger_sends_no_codes_to_the_terminal(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile(template, tmp_path / "job", put("run", {"name": "a\x1b]0;x\x07\nb", "tags": []}), 0)
    capsys.readouterr()
    assert main(["list", "runs", f"run_root={tmp_path}"]) == 0
    assert main(["resume", str(tmp_path / "job"), "total_steps=128"]) == 2
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "a?]0;x??b" in shown.out
