"""Tests the repr of every object of the extension, and its error when it is pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlox


def dataset() -> Any:
    obs, flags = np.zeros((3, 2), np.float32), np.array([False, False, True])
    return rlox.OfflineDatasetBuffer(obs, obs, np.zeros(3, np.int64), np.ones(3, np.float32), flags, flags)


def filled(tmp_path: Path) -> Any:
    buffer = rlox.ReplayBuffer(10, 2, 1)
    buffer.push(np.zeros(2), 0, 1.0, False, False)
    return buffer


MADE: dict[str, Callable[[Path], Any]] = {
    "ReplayBuffer(1 of 10 transitions, n_envs=1)": filled,
    "PrioritizedReplayBuffer(0 of 10 transitions, n_envs=1)": (
        lambda path: rlox.PrioritizedReplayBuffer(10, 2, 1)
    ),
    "SequenceReplayBuffer(0 of 12 transitions, n_envs=3)": (
        lambda path: rlox.SequenceReplayBuffer(12, 2, 1, n_envs=3)
    ),
    "MmapReplayBuffer(0 of 100 transitions, n_envs=1)": (
        lambda path: rlox.MmapReplayBuffer(10, 100, 2, 1, str(path))
    ),
    "OfflineDatasetBuffer(3 transitions)": lambda path: dataset(),
    "VecEnv(3, env_id='Acrobot-v1', precision='f32')": (
        lambda path: rlox.VecEnv(3, 0, "Acrobot-v1", precision="f32")
    ),
    "CartPole(env_id='CartPole-v1')": lambda path: rlox.CartPole(),
}  # fmt: skip


@pytest.mark.parametrize(("shown", "make"), MADE.items(), ids=[n.split("(")[0] for n in MADE])
def test_objects_have_a_repr_and_an_error_with_the_remedy_for_pickling(
    shown: str, make: Callable[[Path], Any], tmp_path: Path
) -> None:
    made = make(tmp_path / "disk")
    assert repr(made) == shown
    saved = "save writes its rows to a folder, load reads them into a buffer made with the same arguments"
    if "env_id" in shown:
        saved = "snapshot returns its state, restore puts that into an object made with the same arguments"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError) as refused:
            attempt(made)
        assert str(refused.value) == f"{shown.split('(')[0]} cannot be pickled or copied: {saved}"
