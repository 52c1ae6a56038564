"""Tests which states of callbacks a checkpoint restores, and which ones it refuses."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from helpers.small_ppo import SMALL_PPO

from rlox.algorithms import PPO
from rlox.callbacks import Callback
from rlox.errors import CheckpointError
from rlox.runs.callback_states import get_callback_states, restore_callbacks
from rlox.state_tree import pack, unpack


class ValueCallback(Callback):
    """Saves a value in its state and restores it."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def state(self) -> dict[str, Any]:
        return {"kept": self.value}

    def restore(self, state: Any) -> None:
        self.value = state["kept"]


class WholeStateCallback(ValueCallback):
    """Its whole state is the given value."""

    def state(self) -> Any:
        return self.value


def round_trip(value: Any) -> Any:
    """Puts the value into a checkpoint with a callback's state; returns the restored value."""
    arrays: dict[str, Any] = {}
    state = unpack(pack(get_callback_states([ValueCallback(value)]), arrays, "callbacks"), arrays)
    restored_callback = ValueCallback()
    restore_callbacks([restored_callback], state)
    return restored_callback.value


SAVABLE_VALUES: tuple[Any, ...] = (
    {1: "one", "1": "text", (2, 3): [4], 2.5: None, False: (), None: {}},
    {"$array": 5, "$pairs": [1], "$tuple": {"$tensor": (1,)}},
    [(1, (2,)), [], (), {}, "", float("inf"), 2**70],
    {"deep": {7: {8: (9, {10: "x"})}}},
)


@pytest.mark.parametrize("kept", SAVABLE_VALUES)
def test_a_restored_callback_state_keeps_the_types_of_its_values(kept: Any) -> None:
    found = round_trip(kept)
    assert found == kept
    assert repr(found) == repr(kept)


@pytest.mark.parametrize("forged", [["V1", 10**12], ["O", 1], ["S1", 5], ["<f8", "1"], ["<i8", [1] * 9]])
def test_a_forged_number_of_numpy_is_refused_and_takes_no_memory(forged: list[Any]) -> None:
    saved = get_callback_states([ValueCallback()])
    saved[0]["state"] = {"kept": {"$number": forged}}
    with pytest.raises(CheckpointError, match="expected a number"):
        restore_callbacks([ValueCallback()], saved)


def test_numbers_arrays_and_tensors_of_a_state_come_back_with_their_values() -> None:
    kept = {
        "nan": float("nan"),
        "numpy": [np.float32(0.1), np.int64(3), np.bool_(False), np.float64("nan")],
        "a/b": np.arange(3, dtype=np.uint8),
        "a": {"b": np.ones((2, 0), np.float16)},
        4: torch.tensor([1.5, 2.5]).requires_grad_(),
    }
    found = round_trip(kept)
    assert np.isnan(found["nan"]) and np.isnan(found["numpy"][3])
    assert found["numpy"][:3] == [float(np.float32(0.1)), 3, False]
    assert found["a/b"].tolist() == [0, 1, 2] and found["a/b"].dtype == np.uint8
    assert found["a"]["b"].shape == (2, 0) and found["a"]["b"].dtype == np.float16
    assert torch.equal(found[4], torch.tensor([1.5, 2.5]))


def test_a_callback_state_restores_the_state_of_a_module() -> None:
    module = torch.nn.Linear(2, 1)
    found = round_trip({"ema": module.state_dict()})
    assert isinstance(module.state_dict(), OrderedDict)
    assert list(found["ema"]) == ["weight", "bias"]
    assert torch.equal(found["ema"]["weight"], module.weight)


def test_a_callback_state_is_a_copy_of_the_callbacks_values() -> None:
    kept: dict[str, Any] = {"list": [1], "array": np.zeros(2), "tensor": torch.zeros(2)}
    ((taken),) = get_callback_states([ValueCallback(kept)])
    kept["list"].append(2)
    kept["array"][:] = 1.0
    kept["tensor"][:] = 1.0
    state = taken["state"]["kept"]
    assert state["list"] == [1]
    assert state["array"].tolist() == state["tensor"].tolist() == [0.0, 0.0]


class Point(NamedTuple):
    x: int
    y: int


class Colour(IntEnum):
    RED = 1


class Array(np.ndarray):
    """A subclass of `np.ndarray`."""


SELF_REFERENCE: list[Any] = []
SELF_REFERENCE.append({"again": SELF_REFERENCE})

UNSAVABLE_VALUES: dict[str, tuple[Any, str]] = {
    "a set": ({1}, r"\['kept'\] is a set, expected None, a number"),
    "bytes": ([b"x"], r"\['kept'\]\[0\] is a bytes"),
    "a path": ({"at": Path()}, r"\['kept'\]\['at'\] is a PosixPath"),
    "a complex number": (1j, "is a complex"),
    "an object key": ({frozenset(): 1}, "is a frozenset"),
    "texts in an array": (np.array(["a"]), "is an array of <U1"),
    "objects in an array": (np.array([None]), "is an array of object"),
    "a masked array": (np.ma.masked_array([1.0], [True]), "is a MaskedArray"),
    "a counter": ({"n": Counter("a")}, r"\['kept'\]\['n'\] is a Counter, expected None, a number"),
    "a dict with a default": (defaultdict(list), "is a defaultdict"),
    "a named tuple": ([Point(1, 2)], r"\['kept'\]\[0\] is a Point"),
    "a name of a number": (Colour.RED, "is a Colour"),
    "a name as a key": ({Colour.RED: 1}, "a key, is a Colour"),
    "an array of a subclass": (np.array([1.0]).view(Array), "is a Array"),
    "what holds itself": (
        SELF_REFERENCE,
        r"\['kept'\].*\.\.\. holds itself, or has more than 100 levels",
    ),
    "a brain float": (torch.zeros(1, dtype=torch.bfloat16), "is a tensor of torch.bfloat16"),
}


@pytest.mark.parametrize("name", UNSAVABLE_VALUES)
def test_a_state_that_would_not_come_back_is_refused_with_its_place(name: str) -> None:
    kept, told = UNSAVABLE_VALUES[name]
    with pytest.raises(CheckpointError, match=rf"^the callback ValueCallback: its state.*{told}"):
        get_callback_states([ValueCallback(kept)])


def test_a_state_that_is_no_dict_is_refused() -> None:
    told = r"WholeStateCallback: state\(\) returned a NoneType, expected a"
    with pytest.raises(CheckpointError, match=told):
        get_callback_states([WholeStateCallback(None)])
    assert get_callback_states([WholeStateCallback({}), Callback()]) == []


def test_restore_accepts_callback_states_of_earlier_versions() -> None:
    again = ValueCallback()
    name = f"{__name__}:ValueCallback"
    restore_callbacks([again], [{"name": name, "state": {"kept": {"1": [1, 2]}}}])
    assert again.value == {"1": [1, 2]}


def test_a_checkpoint_keeps_the_kinds_of_a_callbacks_state(tmp_path: Path) -> None:
    kept = {1: (2, 3), "best": float("-inf")}
    PPO("CartPole-v1", callbacks=[ValueCallback(kept)], **SMALL_PPO).save(tmp_path / "saved")
    again = ValueCallback()
    PPO.from_checkpoint(tmp_path / "saved", callbacks=[again])
    assert again.value == kept
