"""Tests what SECURITY.md says of connections: by default no command connects, listens or resolves a name.

Every Python process that a command starts records its network calls, by an audit hook in its own
`sitecustomize`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOOK = """
import json, os, sys

ASKED = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname",
    "socket.gethostbyaddr", "urllib.Request", "http.client.connect",
)

def watch(event, arguments):
    wide = event == "socket.__new__" and int(arguments[1]) in (2, 10)  # AF_INET, AF_INET6
    if wide or event in ASKED:
        line = json.dumps([os.getpid(), event, repr(arguments[1:])[:200]]) + "\\n"
        out = os.open(os.environ["ASKED_OF_THE_NETWORK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(out, line.encode())
        os.close(out)

sys.addaudithook(watch)
started = os.open(os.environ["STARTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(started, f"{os.getpid()}\\n".encode())
os.close(started)
"""
SMALL = ("tuned=null", "total_steps=128", "algo.n_steps=16", "env.n_envs=4", "eval.episodes=2")


# Runs commands one after another in one process, which ends with the first exit code other than 0.
COMMANDS = """
import json, sys
from rlox_cli.main import main

for line in json.loads(sys.argv[1]):
    if (code := main(line)) != 0:
        sys.exit(f"{line}: exit code {code}")
"""


class Watched:
    """Runs programs under the hook and returns their network calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
        self.asked, self.started = folder / "asked", folder / "started"

    def __call__(self, *line: str) -> None:
        """Run Python with these arguments."""
        paths = [str(self.folder / "hook"), *sys.path[1:], os.environ.get("PYTHONPATH", "")]
        own = {"ASKED_OF_THE_NETWORK": str(self.asked), "STARTED": str(self.started)}
        done = subprocess.run(
            [sys.executable, *line],
            cwd=self.folder,
            env={**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def rlox(self, *commands: tuple[str, ...]) -> None:
        """Run these commands in one process."""
        self("-c", COMMANDS, json.dumps(commands))

    def requests(self) -> list[list[object]]:
        """Return the network calls with their processes."""
        lines = self.asked.read_text(encoding="utf-8").splitlines() if self.asked.exists() else []
        return [json.loads(line) for line in lines]

    def processes(self) -> int:
        """Return how many processes ran under the hook."""
        return len(self.started.read_text(encoding="utf-8").split())


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_commands_of_runs_ask_nothing_of_the_network(watched: Watched):
    torch = ("algo.backend=torch", "env.backend=gymnasium", "env.workers=subprocess")
    watched.rlox(
        ("train", "env=CartPole-v1", *SMALL, "hydra.run.dir=runs/one"),
        ("train", "env=CartPole-v1", *SMALL, *torch, "logger=[csv]", "hydra.run.dir=runs/other"),
        ("evaluate", "runs/one", "episodes=2"),
        ("resume", "runs/other", "total_steps=256"),
        ("export", "runs/one"),
        ("report", "runs/one", "formats=[]"),
        ("dataset", "make", "data", "policy=runs/one", "steps=50"),
        ("dataset", "check", "data"),
        ("list", "runs"),
    )
    assert watched.requests() == []
    assert watched.processes() > 1  # the environment's workers are among them


def test_sweeps_in_one_process_and_in_two_ask_nothing_of_the_network(watched: Watched):
    sweep = ("sweep", "env=CartPole-v1", *SMALL, "seed=0,1")
    watched.rlox(
        (*sweep, "sweep.workers=1", "hydra.sweep.dir=alone"),
        (*sweep, "sweep.workers=2", "hydra.sweep.dir=workers"),
        ("report", "workers", "formats=[]"),
    )
    assert watched.requests() == []
    assert watched.processes() >= 3


def test_the_hook_sees_a_connection_of_a_process_that_a_process_starts(watched: Watched):
    connecting = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"
    watched("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {connecting!r}])")
    events = [event for _, event, _ in watched.requests()]
    assert "socket.connect" in events
    assert "socket.__new__" in events


def test_the_rust_code_has_no_network():
    """Compiled code triggers no audit hook, so the test reads its sources and dependencies."""
    sources = [p for p in (ROOT / "rust").rglob("*.rs") if "target" not in p.parts]
    assert sources
    opens = re.compile(
        r"\bstd::net\b|\bstd::\{[^}]*\bnet\b|\b(?:Tcp|Unix)\w+\b|UdpSocket|libc::(?:socket|connect|bind)\b"
    )
    assert [p.name for p in sources if opens.search(p.read_text(encoding="utf-8"))] == []
    locked = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    named = set(re.findall(r'^name = "([^"]+)"', locked, re.MULTILINE))
    assert named & {"tokio", "mio", "hyper", "reqwest", "ureq", "curl", "socket2", "tonic"} == set()


def test_the_page_names_the_feature_of_each_file_that_can_connect():
    """SECURITY.md must mention a new import of a network library."""
    told = {
        "rlox/loggers/child_sink.py": "`logger=wandb`",
        "rlox/llm/serving/channel.py": "`GenerationServer`",
        "rlox/distributed/group.py": "`torchrun -m rlox`",
        "rlox_cli/sweeps/executors.py": "`hydra/launcher=ray`",
        "rlox_cli/search/optimizer.py": "`search.storage`",
        "rlox/loggers/mlflow.py": "`logger=mlflow`",
        "rlox/loggers/mlflow_store.py": "`logger=mlflow`",
        "rlox/loggers/wandb.py": "`logger=wandb`",
    }
    opens = re.compile(
        r"^\s*(?:import|from) (?:http\.|urllib\.request|httpx|requests|aiohttp|grpc|ray\b)"
        r"|init_process_group|RDBStorage\(|import_module\(\"(?:mlflow|wandb)|create_connection|\.listen\(",
        re.MULTILINE,
    )
    found = {
        str(path.relative_to(ROOT))
        for package in ("rlox", "rlox_cli")
        for path in (ROOT / package).rglob("*.py")
        if opens.search(path.read_text(encoding="utf-8"))
    }
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert found == set(told)
    assert [feature for feature in told.values() if feature not in page] == []
