"""Tests the import of torch in the middle of a run that does not use it."""

from __future__ import annotations

import os
import subprocess
import sys

from helpers.waiting import PATIENCE

IMPORTED_BESIDE = """
import threading
import numpy as np
from rlox.devices import is_module, torch_threads
from rlox.state_tree import pack

done = threading.Event()

def beside():
    import torch
    done.set()

threading.Thread(target=beside).start()
calls = 0
while not done.is_set() or not calls:
    assert pack({"a": np.zeros(2)}, {}) == {"a": {"$array": "a"}}
    assert not is_module(object())
    with torch_threads(1):
        calls += 1
print("called", calls)
"""
ASKED_IN_THE_MIDDLE = """
import sys
from rlox.algorithms.ppo import PPO
from rlox.callbacks import Callback

class Looks(Callback):
    def on_step(self, algo, **told):
        if "torch" not in sys.modules:
            algo.policy
            import torch
            print("within", torch.get_num_threads())

run = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=32, backend="native", callbacks=Looks())
run.train(96)
import torch
print("after", torch.get_num_threads(), "at", run.clock.env_steps)
"""


def said(script: str) -> str:
    """Returns the output of a new process in which torch would take three threads."""
    environment = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_waits_for_an_import_of_torch_in_another_thread() -> None:
    assert said(IMPORTED_BESIDE).startswith("called ")


def test_torch_imported_late_has_the_runs_threads_and_then_its_default() -> None:
    usual = said("import torch; print(torch.get_num_threads())").strip()
    assert said(ASKED_IN_THE_MIDDLE).split("\n")[:2] == ["within 1", f"after {usual} at 96"]
