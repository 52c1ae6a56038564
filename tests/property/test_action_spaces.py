"""Tests for random action spaces that rows become actions and return, and that heads respect masks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from helpers.factored_actions import require_form
from helpers.selection import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rlox.envs.actions import ActionCodec
from rlox.envs.mask_forms import MaskForm
from rlox.policies.factored import FactoredHead

EXAMPLES = examples(ci=80, nightly=400, full=5_000)
INTEGERS = st.sampled_from([np.int8, np.int16, np.int32, np.int64])
SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)


@st.composite
def choices(draw: st.DrawFn) -> gym.Space[Any]:
    """Draw a space of one or several choices, with any start and dtype."""
    kind, dtype = draw(st.sampled_from(["one", "many", "binary"])), draw(INTEGERS)
    if kind == "one":
        return spaces.Discrete(draw(st.integers(1, 6)), start=draw(st.integers(-9, 9)), dtype=dtype)
    shape = draw(SHAPES)
    if kind == "binary":
        return spaces.MultiBinary(shape)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return spaces.MultiDiscrete(rng.integers(1, 5, shape), dtype=dtype, start=rng.integers(-9, 9, shape))


@st.composite
def boxes(draw: st.DrawFn) -> gym.Space[Any]:
    """Draw a Box with a bound on both sides, one or none for each number; some have integers."""
    shape, dtype = (
        draw(st.one_of(st.just(()), SHAPES)),
        draw(st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    low = rng.integers(-5, 1, shape).astype(np.float64)
    high = low + rng.integers(1, 5, shape)
    if np.dtype(dtype).kind == "f":
        low = np.where(rng.random(shape) < 0.3, -np.inf, low)
        high = np.where(rng.random(shape) < 0.3, np.inf, high)
    return spaces.Box(np.asarray(low, dtype), np.asarray(high, dtype), dtype=dtype)


SPACES = st.recursive(
    st.one_of(choices(), boxes()),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("abcd"), parts, min_size=1, max_size=3).map(spaces.Dict),
    ),
    max_leaves=6,
)


def sampled(codec: ActionCodec, n: int, seed: int) -> np.ndarray[Any, Any]:
    """Draw rows of valid choices and of numbers of all sizes."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(count, size=n) for count in codec.choices]
    columns += [rng.normal(scale=4.0, size=n) for _ in range(codec.box_dim)]
    return np.stack(columns, 1).astype(codec.dtype).reshape(n, *codec.shape)


@settings(max_examples=EXAMPLES, deadline=None)
@given(space=SPACES, seed=st.integers(0, 99))
def test_a_row_becomes_an_action_of_the_space_and_comes_back(space: Any, seed: int) -> None:
    codec = ActionCodec.of(space)
    rows = sampled(codec, 3, seed)
    actions = codec.to_env(rows)
    assert gym.vector.utils.batch_space(space, 3).contains(actions)
    for action in codec.unbatch(actions):
        require_form(space, action)
    back = codec.from_env(actions, 3)
    chosen = (slice(None), slice(len(codec.choices)))
    wide = back.reshape(3, -1), rows.reshape(3, -1)
    assert np.array_equal(wide[0][chosen], wide[1][chosen])
    assert repr(codec.to_env(back)) == repr(actions)  # a clipped number stays where it was clipped


@settings(max_examples=EXAMPLES, deadline=None)
@given(space=SPACES, seed=st.integers(0, 99))
def test_sampled_actions_survive_a_round_trip_through_the_action_codec(space: Any, seed: int) -> None:
    codec = ActionCodec.of(space)
    batch = gym.vector.utils.batch_space(space, 2)
    batch.seed(seed)
    rows = codec.from_env(batch.sample(), 2)
    counts = np.array(codec.choices, np.int64)
    chosen = rows.reshape(2, -1)[:, : len(counts)]
    assert ((chosen >= 0) & (chosen < counts)).all()
    again = codec.from_env(codec.to_env(rows), 2)
    assert np.array_equal(again, rows)


@settings(max_examples=EXAMPLES, deadline=None)
@given(space=SPACES.filter(lambda s: bool(ActionCodec.of(s).choices)), seed=st.integers(0, 99))
def test_a_head_takes_each_choice_from_what_a_mask_allows(space: Any, seed: int) -> None:
    codec = ActionCodec.of(space)
    form, rng = MaskForm(codec), np.random.default_rng(seed)
    mask = (rng.random(form.size) < 0.5).astype(np.int8)
    begins = np.cumsum((0, *codec.choices))
    for begin, end in pairwise(begins):
        mask[rng.integers(begin, end)] = 1
    assert not form.empty_message(form.to_rows(mask))
    head = FactoredHead(codec.choices, codec.box_dim)
    outputs = torch.from_numpy(rng.normal(size=(1, head.size)).astype(np.float32))
    outputs[:, : head.n_logits][:, torch.from_numpy(mask == 0)] = -1e30
    for row in (head.mode(outputs), head.sample(outputs, torch.Generator().manual_seed(seed))):
        taken = row[0, : len(codec.choices)].long().numpy()
        assert mask[begins[:-1] + taken].all()
        log_prob, entropy = head.score(outputs, row)
        assert bool(torch.isfinite(log_prob) & torch.isfinite(entropy))
