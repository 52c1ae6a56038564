"""`init_from=RUN`: from which run a run began."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from helpers.cli import TINY, Cli, only_run


def test_the_command_line_begins_from_a_run_and_writes_down_from_which(
    cli: Cli, trained: Path
) -> None:
    ended = cli("train", *TINY, f"init_from={trained}", "algo.gamma=0.9", "run_root=second")
    assert ended.code == 0, ended.err
    run = only_run(Path("second"))
    origin = json.loads((run / "provenance.json").read_text())["init_from"]
    first = trained / "checkpoints" / origin["checkpoint"] / "weights.safetensors"
    assert origin["weights_sha256"] == hashlib.sha256(first.read_bytes()).hexdigest()
    assert {k: origin[k] for k in ("path", "algo", "env", "env_steps", "updates")} == {
        "path": str(trained), "algo": "ppo", "env": "CartPole-v1", "env_steps": 256, "updates": 2,
    }  # fmt: skip
    ended = cli("resume", str(run), "total_steps=384")
    assert ended.code == 0, ended.err
    missing = cli("train", *TINY, f"init_from={trained}x")
    assert (missing.code, missing.err) == (
        2,
        f"rlox train: init_from={trained}x: no such folder; there is {trained}\n",
    )
    empty = cli("train", *TINY, "init_from=second")
    assert empty.code == 2
    assert empty.err.startswith("rlox train: init_from=second: ")
