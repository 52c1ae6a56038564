"""Tests of `init_from=RUN`: a run starts with the weights of another run and records it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from faults.fingerprint import fingerprint
from helpers.cli import TINY, Cli, only_run


def test_init_from_starts_from_a_run_and_records_its_checkpoint(cli: Cli, trained: Path) -> None:
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


def test_resume_without_checkpoints_starts_again_from_the_init_from_weights(cli: Cli, trained: Path) -> None:
    begun = ("train", *TINY, f"init_from={trained}", "hydra.run.dir=second")
    assert cli(*begun).code == 0
    whole = fingerprint(Path("second"))
    status = json.loads(Path("second/status.json").read_text())
    for name in ("checkpoints", "eval"):
        shutil.rmtree(Path("second") / name, ignore_errors=True)
    Path("second/result.json").unlink()
    Path("second/status.json").write_text(json.dumps(status | {"status": "killed", "step": 0}))
    shutil.copytree("second", "third")
    ended = cli("resume", "second")
    assert ended.code == 0, ended.err
    again = fingerprint(Path("second"))
    assert again["weights.safetensors"] == whole["weights.safetensors"]
    assert cli("resume", str(trained), "total_steps=512").code == 0
    refused = cli("resume", "third")
    assert (refused.code, refused.err) == (
        2,
        f"rlox resume: init_from={trained}: the run began with its step-000000000256, which is not its "
        "newest checkpoint any more; start a new run\n",
    )
