"""Tests that states of many environments are saved as columns of arrays and restored unchanged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.envs.state_columns import stack_states, unstack_states
from rlox.state_tree import pack, unpack

WORD = 1 << 64
LEAVES = st.one_of(
    st.none(), st.booleans(), st.text(max_size=3), st.integers(-(WORD**2), WORD**2 + 1),
    st.floats(allow_nan=False),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def through_json(tree: Any) -> Any:
    arrays: dict[str, Any] = {}
    text = json.dumps(pack(tree, arrays))
    return unpack(json.loads(text), arrays)


def same(one: Any, other: Any) -> bool:
    """Says whether values and types are equal: 1, 1.0 and True are three different states."""
    return repr(one) == repr(other)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_a_checkpoint_restores_any_state_trees_unchanged(trees: list[Any]) -> None:
    assert same(unstack_states(through_json(stack_states(trees)), len(trees)), trees)


@pytest.mark.parametrize(
    "leaves",
    [
        [0, WORD // 2 - 1, -WORD // 2],
        [0, WORD, WORD**2 - 1],
        [-1, WORD, 5],
        [0.0, -0.0, 1e300],
        [0.0, -0.0, 0.0],
        [True, False, True],
        [1, 1.0, True],
        ["a", "a", "a"],
        ["a", "b", None],
        [np.float32([1, 2]), np.float32([3, 4]), np.float32([5, 6])],
        [np.float32([1]), np.float64([1]), np.float32([1, 2])],
        [np.array(1.5), np.array(2.5), np.array(3.5)],
    ],
)
def test_each_kind_of_leaf_comes_back_with_its_type(leaves: list[Any]) -> None:
    trees = [{"a": [leaf], "b": {"c": None}} for leaf in leaves]
    assert same(unstack_states(through_json(stack_states(trees)), 3), trees)


def test_another_number_of_environments_is_an_error() -> None:
    with pytest.raises(ValueError, match="of 2 environments, expected 3"):
        unstack_states(stack_states([{"x": 1}, {"x": 2}]), 3)


def test_the_text_of_a_vectors_state_does_not_grow_with_its_environments() -> None:
    texts = []
    for n in (2, 200):
        vec = make_vec(EnvConfig(id="CartPole-v1", n_envs=n, backend="gymnasium"), seed=0)
        vec.reset_into(np.zeros((n, 4), np.float32))
        texts.append(len(json.dumps(pack(vec.state(), {}))))
        vec.close()
    assert texts[1] < texts[0] + 200
