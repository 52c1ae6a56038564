"""Tests that `rlox train` in two processes writes one folder with the weights of one process, and resumes."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.process_group import start_group, wait_all
from helpers.waiting import PATIENCE, until

from rlox.algorithms import GRPO

TRAIN = (
    "train", "algo=grpo", "env=text/copy", "tuned=null", "algo.rewards=[close]", "algo.batch_size=8",
    "algo.learning_rate=1e-3", "algo.n_epochs=2", "eval.every=96", "eval.episodes=4", "log.every=16",
    "checkpoint.every=32",
)  # fmt: skip


def rlox(size: int, folder: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    return start_group(["-m", "rlox_cli.main", *arguments], size, folder)


def result(run: Path) -> dict[str, Any]:
    return json.loads((run / "result.json").read_text())


def weights(run: Path) -> dict[str, torch.Tensor]:
    policy = GRPO.from_checkpoint(run).policy
    return {name: value.clone() for name, value in policy.state_dict().items()}


@pytest.mark.slow
def test_two_processes_make_one_run_that_resumes_exactly_after_a_kill(
    tmp_path: Path,
) -> None:
    whole = (*TRAIN, "total_steps=192", "hydra.run.dir=whole")
    alone = (*TRAIN, "total_steps=192", "hydra.run.dir=alone")
    both = wait_all(rlox(2, tmp_path, *whole))
    assert [code for code, _, _ in both] == [0, 0], both
    assert wait_all(rlox(1, tmp_path, *alone))[0][0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "whole"]
    assert (result(tmp_path / "whole")["samples"], result(tmp_path / "whole")["updates"]) == (
        192,
        48,
    )
    origin = json.loads((tmp_path / "whole" / "provenance.json").read_text())
    assert origin["processes"] == 2
    told = (tmp_path / "whole" / "episodes.jsonl").read_text().splitlines()
    assert len(told) == len((tmp_path / "alone" / "episodes.jsonl").read_text().splitlines())
    one, two = weights(tmp_path / "alone"), weights(tmp_path / "whole")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0.0, atol=2e-5)

    # the same run again, with its second process killed in the middle
    broken = rlox(2, tmp_path, *TRAIN, "total_steps=192", "hydra.run.dir=broken")
    _wait_for(tmp_path / "broken" / "checkpoints" / "step-000000000064", broken)
    broken[1].send_signal(signal.SIGKILL)
    first, second = wait_all(broken)
    assert (first[0], second[0]) == (1, -signal.SIGKILL)
    assert "another process of the group is gone, or did not answer" in first[2]
    assert "to go on: rlox resume" in first[2]
    status = json.loads((tmp_path / "broken" / "status.json").read_text())
    assert status["status"] == "failed"
    assert [code for code, _, _ in wait_all(rlox(2, tmp_path, "resume", "broken"))] == [0, 0]
    assert all(map(torch.equal, weights(tmp_path / "broken").values(), two.values()))
    # a done run is done for both processes, and one that lacks its evaluation gets it
    assert [code for code, _, _ in wait_all(rlox(2, tmp_path, "resume", "broken"))] == [0, 0]
    (tmp_path / "broken" / "result.json").unlink()
    (tmp_path / "broken" / "status.json").write_text(json.dumps(status))
    assert [code for code, _, _ in wait_all(rlox(2, tmp_path, "resume", "broken"))] == [0, 0]
    assert result(tmp_path / "broken")["samples"] == 192


def _wait_for(path: Path, running: list[subprocess.Popen[str]]) -> None:
    until(lambda: path.exists() or running[0].poll() is not None, f"{path}", 2 * PATIENCE)
    assert path.exists(), wait_all(running)
