"""Tests that masked arrays are refused, because NumPy converts masked entries to numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlox import _core as core
from rlox.errors import ShapeError

ROWS = np.array([1.0, 0.0, 0.5, 1.0], np.float32)
FLAGS = np.array([False, True, False, True])
COUNTS = np.array([2, 3, 1, 2])

# A function, its arrays by name, and its other arguments.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "gae": (
        core.compute_gae,
        {"rewards": ROWS, "values": ROWS, "terminated": FLAGS, "next_values": ROWS},
        {},
    ),
    "gae, batched": (
        core.compute_gae_batched,
        {"rewards": ROWS, "values": ROWS, "dones": FLAGS, "last_values": ROWS[:2]},
        {"n_steps": 2},
    ),
    "V-trace": (
        core.compute_vtrace,
        {"log_rhos": ROWS, "rewards": ROWS, "values": ROWS, "dones": FLAGS},
        {"bootstrap_value": 0.0},
    ),
    "lambda returns": (
        core.compute_lambda_returns,
        {"rewards": ROWS, "next_values": ROWS, "dones": FLAGS},
        {},
    ),
    "explained variance": (core.explained_variance, {"values": ROWS, "returns": ROWS}, {}),
    "group advantages": (core.compute_group_advantages, {"rewards": ROWS}, {}),
    "token KL": (core.compute_token_kl, {"log_p": -ROWS, "log_q": -ROWS, "mask": FLAGS}, {}),
    "packing": (core.pack_sequences, {"lengths": COUNTS}, {"max_len": 4}),
    "statistics": (core.RunningStats().batch_update, {"xs": ROWS}, {}),
    "buffer": (
        core.ReplayBuffer(8, 4, 1).push_batch,
        {"obs": np.ones((1, 4), np.float32), "actions": ROWS[:1], "rewards": ROWS[:1]},
        {"next_obs": np.ones((1, 4)), "terminated": FLAGS[:1], "truncated": FLAGS[:1]},
    ),
}


def mask_first(array: Any) -> Any:
    """Returns the array with its first number masked."""
    mask = np.zeros(np.shape(array), bool)
    mask.flat[0] = True
    return np.ma.masked_array(array, mask)


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, (_, arrays, _) in CALLS.items() for name in arrays]
)
def test_a_masked_array_is_refused_by_name(call: str, name: str) -> None:
    function, arrays, others = CALLS[call]
    function(**arrays, **others)  # accepts them without a mask
    told = name.removesuffix("s") if call == "buffer" and name != "obs" else name  # its column
    with pytest.raises(ShapeError, match=f"^{told}: some of it is masked, expected numbers"):
        function(**(arrays | {name: mask_first(arrays[name])}), **others)


def test_a_masked_array_without_a_mask_is_accepted() -> None:
    plain = core.explained_variance(ROWS, ROWS)
    assert core.explained_variance(np.ma.masked_array(ROWS), np.ma.masked_array(ROWS)) == plain


def test_a_masked_row_of_a_buffer_is_refused_and_nothing_is_stored() -> None:
    buffer = core.ReplayBuffer(8, 4, 1)
    with pytest.raises(ShapeError, match="obs: some of it is masked"):
        buffer.push(mask_first(np.ones(4)), 0.0, 0.0, False, False, np.ones(4))
    assert len(buffer) == 0
