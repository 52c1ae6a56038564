"""Tests that a state tree comes back unchanged from JSON and arrays, or that an error names the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlox.errors import CheckpointError
from rlox.state_tree import pack


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (
            {"seen": {3: 1}},
            "cannot save the key 3, a int, of seen: it would come back as something",
        ),
        ({None: 1}, "cannot save the key None, a NoneType, of the state"),
        ({"x": {"$array": "x"}}, r"cannot save the key '\$array', a str, of x"),
        (
            {"a/b": np.zeros(1), "a": {"b": np.ones(1)}},
            "two arrays would be saved as a/b: leave / out of keys",
        ),
        ({"x": [object()]}, "cannot save object at x/0: not a number, text or array"),
    ],
)
def test_a_tree_that_would_come_back_as_another_is_refused(tree: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        pack(tree, {})
