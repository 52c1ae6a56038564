"""Tests ReplayBuffer: contents, columns, draws, caller-owned outputs, refused arguments."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import torch
from helpers.transitions import (
    KEYS,
    Model,
    check_batch,
    check_contents,
    episodes,
    push,
    push_batch,
    row,
)

from rlox import (
    MmapReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    SequenceReplayBuffer,
    Stream,
)
from rlox.errors import (
    ConfigError,
    ShapeError,
    StaleIndexError,
    UnknownNameError,
)


def filled(n=100, capacity=64, seed=0, **settings):
    buffer, model = ReplayBuffer(capacity, 3, 1, **settings), Model(capacity)
    batch = episodes(n, np.random.default_rng(seed))
    push_batch(buffer, batch)
    model.streams[0] = [row(batch, i) for i in range(n)]
    return buffer, model


def test_a_batch_has_the_documented_keys_shapes_and_dtypes():
    buffer = ReplayBuffer(capacity=100_000, obs_dim=4, act_dim=1)
    buffer.push(np.zeros(4, np.float32), 0.5, 1.0, False, False)
    batch = buffer.sample(batch_size=256, seed=42)
    assert {key: (a.dtype.name, a.shape) for key, a in batch.items()} == {
        "obs": ("float32", (256, 4)),
        "next_obs": ("float32", (256, 4)),
        "actions": ("float32", (256, 1)),
        "rewards": ("float32", (256,)),
        "terminated": ("bool", (256,)),
        "truncated": ("bool", (256,)),
        "indices": ("uint64", (256,)),
    }
    assert (len(buffer), buffer.capacity, buffer.n_envs, buffer.n_pushed) == (1, 100_000, 1, 1)


@pytest.mark.parametrize("n_envs", [1, 7, 256])
def test_one_ring_per_environment_keeps_the_newest_transitions_exactly(n_envs):
    rng = np.random.default_rng(n_envs)
    buffer, model = ReplayBuffer(5 * n_envs, 3, 1, n_envs=n_envs), Model(5 * n_envs, n_envs)
    streams = [episodes(13, rng) for _ in range(n_envs)]
    for t in range(13):
        now = [row(stream, t) for stream in streams]
        step = {key: np.array([part[key] for part in now]) for key in KEYS}
        push(buffer, now[0] if n_envs == 1 else step)
        for steps, part in zip(model.streams, now, strict=True):
            steps.append(part)
        check_contents(buffer, model)
    check_batch(buffer.sample(500), model.transitions())


@pytest.mark.parametrize("capacity", range(1, 8))
def test_rows_survive_the_wrap_at_every_offset(capacity):
    buffer, model = ReplayBuffer(capacity, 3, 1), Model(capacity)
    batch = episodes(23, np.random.default_rng(capacity))
    for i in range(23):
        push(buffer, row(batch, i))
        model.streams[0].append(row(batch, i))
        check_contents(buffer, model)


def test_batches_may_name_the_environment_of_each_row():
    rng = np.random.default_rng(3)
    buffer, model = ReplayBuffer(30, 3, 1, n_envs=3), Model(30, 3)
    ids = rng.integers(0, 3, 40)
    streams = [episodes(40, rng) for _ in range(3)]
    steps = []
    for env in ids:
        steps.append(row(streams[env], len(model.streams[env])))
        model.streams[env].append(steps[-1])
    batch = {key: np.array([step[key] for step in steps]) for key in KEYS}
    push_batch(buffer, batch, env_ids=ids)
    check_contents(buffer, model)


def test_numbers_lists_and_arrays_of_any_real_dtype_and_layout_are_the_same_transition():
    forms = [
        (np.array([1, 2, 3], np.float32), 0.5, 2.0, True, False),
        ([1.0, 2.0, 3.0], np.float64(0.5), np.float32(2), np.bool_(True), 0),
        (np.array([1, 9, 2, 9, 3], np.float64)[::2], np.array(0.5), 2, 1, np.array(False)),
        (torch.tensor([1.0, 2.0, 3.0]), [0.5], np.array([2.0]), np.array([True]), 0.0),
        (np.array([[1, 2, 3]], np.int64), np.array([0.5], np.float16), True + True, True, False),
    ]
    for form in forms:
        buffer = ReplayBuffer(4, 3, 1)
        buffer.push(*form)
        batch = buffer.gather([0])
        assert batch["obs"].tolist() == [[1, 2, 3]]
        assert (batch["actions"].tolist(), batch["rewards"].tolist()) == ([[0.5]], [2.0])
        assert (batch["terminated"].tolist(), batch["truncated"].tolist()) == ([True], [False])


def test_a_next_observation_left_out_is_the_next_one_pushed_but_never_across_an_end():
    buffer = ReplayBuffer(10, 1, 1)
    for t, ended in enumerate([False, False, True, False]):
        buffer.push([float(t)], 0, 0, False, ended)
    assert buffer.gather(range(4))["next_obs"].ravel().tolist() == [1, 2, 2, 3]
    buffer.push([9.0], 0, 0, False, False, [10.0])
    assert buffer.gather(range(5))["next_obs"].ravel().tolist() == [1, 2, 2, 9, 10]


def test_dict_observations_are_columns_of_their_own_dtype():
    spaces = {"image": ("uint8", (2, 3)), "speed": (np.float64, ())}
    buffer = ReplayBuffer(8, act_dim=2, obs_spaces=spaces, action_dtype="int32")
    rng = np.random.default_rng(0)
    images, speeds = rng.integers(0, 256, (13, 2, 3)).astype(np.uint8), rng.normal(size=13)
    for t in range(12):
        obs, after = ({"image": images[i], "speed": speeds[i]} for i in (t, t + 1))
        buffer.push(obs, [t, -t], 0.0, False, False, after)
    batch = buffer.sample(50)
    t = batch["indices"].astype(int)
    for key, start in (("obs", 0), ("next_obs", 1)):
        np.testing.assert_array_equal(batch[key]["image"], images[t + start])
        np.testing.assert_array_equal(batch[key]["speed"], speeds[t + start])
    assert batch["obs"]["image"].dtype == np.uint8
    np.testing.assert_array_equal(batch["actions"], np.stack([t, -t], 1).astype(np.int32))


@pytest.mark.parametrize("axis", ["first", "last"])
def test_frame_stacks_come_back_exactly_and_share_their_frames(axis):
    rng = np.random.default_rng(0)
    shape = (4, 6, 5) if axis == "first" else (6, 5, 4)
    settings = {"obs_shape": shape, "obs_dtype": "uint8", "act_dim": 1}
    buffer = ReplayBuffer(100, **settings, frame_stack=(4, axis))
    whole = ReplayBuffer(100, **settings)
    frames = np.zeros((4, 6, 5), np.uint8)
    for t in range(350):
        if t % 37 == 0:
            frames[:] = rng.integers(0, 256, (6, 5))
        obs = frames if axis == "first" else np.moveaxis(frames, 0, -1)
        frames = np.concatenate([frames[1:], rng.integers(0, 256, (1, 6, 5)).astype(np.uint8)])
        after = frames if axis == "first" else np.moveaxis(frames, 0, -1)
        for each in (buffer, whole):
            each.push(obs, 0, 0.0, t % 37 == 36, False, after)
    left, right = buffer.sample(500, 1), whole.sample(500, 1)
    for key in KEYS:
        np.testing.assert_array_equal(left[key], right[key])
    assert buffer.nbytes < whole.nbytes / 2


def test_bool_columns_store_any_nonzero_byte_as_true():
    buffer = ReplayBuffer(4, 1, 1, extra_columns={"seen": ("bool", (3,))})
    flags = np.array([0, 1, 7], np.uint8).view(np.bool_)
    buffer.push([0.0], 0, 0, False, False, extra={"seen": flags})
    drawn = buffer.sample(1)["seen"]
    assert drawn.view(np.uint8).tolist() == [[0, 1, 1]]


def test_extra_columns_are_pushed_sampled_and_written_back():
    buffer = ReplayBuffer(4, 1, 1, extra_columns={"log_prob": ("float32", ()), "h": ("float64", (2,))})
    for t in range(6):
        buffer.push([t], 0, 0, False, False, extra={"log_prob": -t, "h": [t, t]})
    assert buffer.update("h", [5, 1, 4], [[7, 8], [0, 0], [9, 9]]) == 1
    batch = buffer.gather([2, 3, 4, 5])
    assert batch["log_prob"].tolist() == [-2, -3, -4, -5]
    assert batch["h"].tolist() == [[2, 2], [3, 3], [9, 9], [7, 8]]
    buffer.update("rewards", [3], [0.25])
    assert buffer.gather([3])["rewards"].tolist() == [0.25]


def test_a_buffer_update_refuses_unpushed_rows_and_skips_overwritten_ones():
    buffer, _ = filled(100, 64)
    before = buffer.gather(np.arange(36, 100))
    negative = r"row 18446744073709551614 \(-2 as int64\) is not"
    for kind, never, said in [
        (np.uint64, 100, "row 100 is not"), (np.uint64, 2**64 - 2, negative), (np.int64, -2, negative)
    ]:  # fmt: skip
        with pytest.raises(StaleIndexError, match=said):
            buffer.update("rewards", np.array([50, never], kind), [7.0, 7.0])
    np.testing.assert_array_equal(buffer.gather(np.arange(36, 100))["rewards"], before["rewards"])
    padding = np.array([50, -1, 3])
    assert buffer.update("rewards", padding, [7.0, 8.0, 9.0]) == 2
    assert buffer.gather([50])["rewards"] == 7.0


def test_an_overwritten_row_is_recognised_for_ever():
    buffer, _ = filled(100, 64)
    for stale in (0, 35, 100, 2**63):
        with pytest.raises(StaleIndexError, match="rows 36 to 99"):
            buffer.gather(np.array([50, stale], np.uint64))
    buffer.clear()
    assert len(buffer) == 0
    with pytest.raises(StaleIndexError, match="no rows"):
        buffer.gather([99])
    push_batch(buffer, episodes(3, np.random.default_rng(1)))
    assert buffer.gather([100, 101, 102])["indices"].tolist() == [100, 101, 102]


def test_the_same_seed_draws_the_same_batch_and_draws_without_one_go_on():
    buffer, model = filled(seed=1)
    again, _ = filled(seed=1)
    batch = buffer.sample(32, seed=5)
    check_batch(batch, model.transitions())
    np.testing.assert_array_equal(batch["indices"], again.sample(32, 5)["indices"])
    first, second = buffer.sample(32)["indices"], buffer.sample(32)["indices"]
    assert (first != second).any()
    both = again.sample(32, n_batches=2)
    assert both["obs"].shape == (2, 32, 3)
    np.testing.assert_array_equal(both["indices"], [first, second])
    np.testing.assert_array_equal(buffer.sample(32, 5, n_batches=3)["indices"][0], batch["indices"])


def test_draws_are_lemires_method_on_the_documented_stream():
    buffer, _ = filled(64, 64)
    stream, words = Stream(9, "replay", 0), []
    for _ in range(20):
        word = stream.next_u64()
        words += [word & 0xFFFFFFFF, word >> 32]
    expected = [word * 64 >> 32 for word in words]
    assert buffer.sample(40, seed=9)["indices"].tolist() == expected


def test_every_row_is_equally_likely():
    buffer, _ = filled(1_000, 100)
    counts = np.bincount(buffer.sample(100_000, seed=3)["indices"].astype(int) - 900, minlength=100)
    chi2 = ((counts - 1_000) ** 2 / 1_000).sum()
    assert 60 < chi2 < 149  # 99 degrees of freedom: p in (0.001, 0.999)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_caller_owned_outputs_are_filled_in_place(kind):
    buffer, model = filled()
    out = {key: np.zeros_like(array) for key, array in buffer.sample(20, 1).items()}
    if kind == "torch":
        out = {key: torch.from_numpy(array) for key, array in out.items()}
    assert buffer.sample(20, 7, out=out) is out
    arrays = {key: np.asarray(array) for key, array in out.items()}
    check_batch(arrays, model.transitions())
    np.testing.assert_array_equal(arrays["indices"], buffer.sample(20, 7)["indices"])


def test_a_replay_buffer_refuses_output_arrays_that_do_not_fit():
    buffer, _ = filled()
    good = buffer.sample(20, 1)
    shared = np.zeros((2, 20, 3), np.float32)
    for wrong in (
        {**good, "obs": np.zeros((19, 3), np.float32)},
        {**good, "obs": np.zeros((20, 3))},
        {**good, "obs": shared[0], "next_obs": shared[0]},
        {key: array for key, array in good.items() if key != "indices"},
    ):
        with pytest.raises(ShapeError):
            buffer.sample(20, 1, out=wrong)


@pytest.mark.parametrize(("n", "capacity"), [(1, 64), (3, 64), (5, 200), (100, 64)])
def test_n_step_returns_equal_the_definition_and_never_cross_an_end(n, capacity):
    buffer, model = filled(150, capacity)
    batch = buffer.sample(400, 0, n_step=n, gamma=0.9)
    ends = 0
    for i, index in enumerate(batch["indices"].tolist()):
        total, discount, last = model.window(index, n, 0.9)
        assert batch["rewards"][i] == pytest.approx(total, rel=1e-6, abs=1e-6)
        assert batch["discounts"][i] == pytest.approx(discount)
        np.testing.assert_array_equal(batch["obs"][i], model.streams[0][index]["obs"])
        for key in ("next_obs", "terminated", "truncated"):
            np.testing.assert_array_equal(batch[key][i], last[key])
        ends += bool(last["truncated"] and not last["terminated"] and discount > 0)
    assert ends > 0


def test_a_cut_episode_is_not_joined_to_what_follows():
    buffer = ReplayBuffer(10, 1, 1)
    buffer.push([0.0], 0, 1.0, False, False)
    buffer.cut_episode()
    buffer.push([5.0], 0, 1.0, False, False)
    batch = buffer.gather([0])
    assert batch["next_obs"].tolist() == [[0.0]]
    returns = buffer.sample(50, n_step=2, gamma=1.0)["rewards"]
    assert returns.tolist() == [1.0] * 50


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"capacity": 0}, ConfigError),
        ({"capacity": 2**40}, ConfigError),
        ({"capacity": -1}, ConfigError),
        ({"obs_dim": 0}, ConfigError),
        ({"obs_dim": None}, ConfigError),
        ({"act_dim": None}, ConfigError),
        ({"obs_shape": (3,)}, ConfigError),
        ({"n_envs": 0}, ConfigError),
        ({"n_envs": 11}, ConfigError),
        ({"obs_dtype": "float16"}, UnknownNameError),
        ({"reward_dtype": "int32"}, ConfigError),
        ({"frame_stack": (2, "first")}, ConfigError),
        ({"frame_stack": 3}, ConfigError),
        ({"extra_columns": {"obs": ("float32", ())}}, ConfigError),
        ({"extra_columns": {"weights": ("float32", ())}}, ConfigError),
        ({"extra_columns": {"x": "float32"}}, ConfigError),
        ({"obs_space": 1}, UnknownNameError),
    ],
)
def test_a_replay_buffer_refuses_invalid_constructor_settings(settings, error):
    with pytest.raises(error):
        ReplayBuffer(**{"capacity": 10, "obs_dim": 3, "act_dim": 1, **settings})


@pytest.mark.parametrize(
    ("kind", "keyword", "hint"),
    [
        (ReplayBuffer, "sampled", "did you mean sampler"),
        (PrioritizedReplayBuffer, "alphas", "did you mean alpha"),
        (SequenceReplayBuffer, "sampler", "known: capacity, .*cross_episodes"),
        (MmapReplayBuffer, "cold_paths", "did you mean cold_path"),
        (ReplayBuffer, "*", "known: capacity"),
    ],
)
def test_an_unknown_keyword_is_answered_with_those_of_the_class(kind, keyword, hint):
    size = {"total_capacity": 10} if kind is MmapReplayBuffer else {}
    with pytest.raises(UnknownNameError, match=f'"{re.escape(keyword)}"; {hint}'):
        kind(10, **size, obs_dim=3, act_dim=1, **{keyword: 1})


@pytest.mark.parametrize(
    "kind", [ReplayBuffer, PrioritizedReplayBuffer, SequenceReplayBuffer, MmapReplayBuffer]
)
def test_every_setting_of_columns_is_in_the_signature(kind):
    columns = {
        "obs_shape", "obs_dtype", "obs_spaces", "action_shape", "action_dtype", "reward_dtype",
        "frame_stack", "extra_columns",
    }  # fmt: skip
    assert columns <= set(inspect.signature(kind).parameters)


def test_wrong_transitions_and_requests_are_refused_and_store_nothing():
    buffer = ReplayBuffer(10, 3, 1, action_dtype="uint8")
    obs = np.zeros(3, np.float32)
    for wrong in (
        (np.zeros(4), 0, 0, False, False),
        (np.zeros((2, 3)), 0, 0, False, False),
        (obs, [0, 1], 0, False, False),
        (obs, 0.5, 0, False, False),
        (obs, 256, 0, False, False),
        (obs, np.array(-1), 0, False, False),
        (obs, 0, "x", False, False),
        (obs, 0, 0, [False, True], False),
        (obs, 0, 0, False, False, np.zeros(2)),
    ):
        with pytest.raises(ShapeError):
            buffer.push(*wrong)
    with pytest.raises(UnknownNameError, match="hidden"):
        buffer.push(obs, 0, 0, False, False, extra={"hidden": 1})
    assert len(buffer) == 0
    with pytest.raises(ConfigError, match="empty"):
        buffer.sample(3)
    buffer.push(obs, 0, 0, False, False)
    for wrong in ({"batch_size": 0}, {"batch_size": 2**40}, {"batch_size": 1, "n_batches": 0},
                  {"batch_size": 1, "n_step": 2}, {"batch_size": 1, "gamma": 0.9},
                  {"batch_size": 1, "n_step": 0, "gamma": 0.9}, {"batch_size": 1, "seed": -1},
                  {"batch_size": 1, "n_step": 2, "gamma": 1.1}):  # fmt: skip
        with pytest.raises(ConfigError):
            buffer.sample(**wrong)


def test_gathering_no_indices_gives_an_empty_batch():
    buffer = ReplayBuffer(8, 3, 1)
    buffer.push(np.zeros(3), 0, 0, False, False)
    assert buffer.gather([])["obs"].shape == (0, 3)
    with pytest.raises(ShapeError, match="float64, expected integers"):
        buffer.gather(np.zeros(0))


def test_the_error_of_too_many_rows_names_the_batch_settings():
    buffer = ReplayBuffer(8, 3, 1)
    buffer.push(np.zeros(3), 0, 0, False, False)
    with pytest.raises(ConfigError, match="n_batches is 268435456"):
        buffer.sample(2, n_batches=2**28)
    with pytest.raises(ConfigError, match="batch_size is 1073741824"):
        buffer.sample(2**30, n_batches=2)


@pytest.mark.filterwarnings("error")
def test_a_number_beyond_float32_is_refused_by_name_without_a_warning():
    buffer = ReplayBuffer(8, 3, 1)
    with pytest.raises(ShapeError, match="obs holds 1e300, expected float32"):
        buffer.push(np.full(3, 1e300), 0, 0, False, False)
    with pytest.raises(ShapeError, match="reward holds 1e300, expected float32"):
        buffer.push(np.zeros(3), 0, np.float64(1e300), False, False)
