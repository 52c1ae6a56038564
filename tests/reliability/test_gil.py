"""Long calls leave the interpreter to other threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.serial  # counts what another thread does meanwhile

PROGRAM = Path(__file__).with_name("gil_share.py")
CALLS = [
    "compute_gae",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "compute_batch_group_advantages",
    "compute_batch_token_kl",
    "compute_lambda_returns",
    "compute_n_step_returns",
    "compute_vtrace",
    "normal",
    "step_all",
    "step_into",
    "update_statistics",
]


def share(call: str) -> dict[str, float]:
    """What `gil_share.py` measures, with rayon at one thread."""
    environment = os.environ | {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), call]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("call", CALLS)
def test_a_counting_thread_keeps_its_rate_during_calls_of_a_millisecond_and_more(call: str):
    # Another process may take the second core away, the call itself never does: one good try of three.
    for _ in range(3):
        measured = share(call)
        if measured["kept"] >= 0.8:
            break
    assert measured["milliseconds"] > 1.0
    assert measured["kept"] >= 0.8
