"""Tests laws that hold for all inputs, on many random inputs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from helpers.oracles import advantages_by_definition
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlox import compute_gae_time_major
from rlox.configs.params import is_inside
from rlox.envs.normalize import RunningMoments
from rlox.losses import clipped_surrogate, kl_estimate
from rlox.state_tree import pack, unpack
from rlox.types import Rollout

finite = st.floats(-1e3, 1e3, width=32)
unit = st.floats(0, 1)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 12), st.integers(1, 9), unit, unit)
def test_time_major_gae_equals_its_definition_for_random_rollouts(
    data: st.DataObject, steps: int, envs: int, gamma: float, lam: float
) -> None:
    numbers = hnp.arrays(np.float64, (steps, envs), elements=finite)
    flags = hnp.arrays(np.bool_, (steps, envs))
    args = [data.draw(kind) for kind in (numbers, numbers, numbers, flags, flags)]
    advantages, returns = compute_gae_time_major(*args, gamma, lam)
    expected = advantages_by_definition(*args, gamma, lam)
    scale = max(1.0, np.abs(expected).max())
    assert np.abs(advantages - expected).max() <= 1e-12 * scale
    assert np.array_equal(returns, advantages + args[1])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**31), st.floats(0, 1))
def test_minibatches_are_a_partition_of_the_valid_rows(
    rows: int, batch: int, seed: int, share: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.arange(rows, dtype=torch.float32)
    valid = torch.rand(rows, generator=generator) <= share
    valid[seed % rows] = True
    no = torch.zeros(rows, dtype=torch.bool)
    rollout = Rollout(
        ids[:, None], ids, ids, ids, ids, no, no, ids, ids, ids, ids[:1, None], ids[:1], 1,
        valid=None if share == 1 else valid,
    )  # fmt: skip
    parts = [m.returns for m in rollout.sample_minibatches(batch, True, generator)]
    assert sorted(torch.cat(parts).tolist()) == ids[valid].tolist()
    assert [len(p) for p in parts[:-1]] == [batch] * (len(parts) - 1)
    assert 1 <= len(parts[-1]) <= batch


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint64, np.bool_, np.uint8]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
)
keys = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)
trees = st.recursive(
    leaves, lambda t: st.one_of(st.lists(t, max_size=4), st.dictionaries(keys, t, max_size=4))
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(keys, trees, max_size=4))
def test_a_state_tree_survives_being_packed_as_json_and_arrays(tree: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {}
    document = json.loads(json.dumps(pack(tree, arrays)))
    assert same(tree, unpack(document, arrays))


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(2, 60), st.just(2)), elements=finite),
    st.lists(st.integers(1, 59), max_size=6),
)
def test_moments_do_not_depend_on_the_split_of_the_data(data: np.ndarray[Any, Any], cuts: list[int]) -> None:
    whole, parts = RunningMoments((2,)), RunningMoments((2,))
    whole.update(data)
    for part in np.split(data, sorted(c for c in cuts if c < len(data))):
        if len(part):
            parts.update(part)
    scale = max(1.0, float(np.abs(data).max()))
    assert np.allclose(whole.mean, parts.mean, atol=1e-9 * scale)
    assert np.allclose(whole.var, parts.var, rtol=1e-9, atol=1e-9 * scale**2)
    assert (parts.var >= 0).all()


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(np.float64, 7, elements=st.floats(-3, 3)),
    hnp.arrays(np.float64, 7, elements=st.floats(-10, 10)),
    st.floats(0.01, 0.99),
)
def test_the_clipped_objective_never_exceeds_the_plain_one(
    log_ratio: np.ndarray[Any, Any], advantages: np.ndarray[Any, Any], eps: float
) -> None:
    ratio, a = torch.from_numpy(log_ratio), torch.from_numpy(advantages)
    clipped = -clipped_surrogate(ratio, a, eps)
    assert float(clipped) <= float((ratio.exp() * a).mean()) + 1e-12
    assert float(kl_estimate(ratio)) >= -1e-12


@given(st.floats(allow_nan=True), st.floats(-5, 5), st.floats(-5, 5))
def test_is_inside_accepts_exactly_numbers_between_the_bounds(x: float, low: float, high: float) -> None:
    assert is_inside(x, f"[{low}, {high}]") == (low <= x <= high)
    assert is_inside(x, f"({low}, {high})") == (low < x < high)
