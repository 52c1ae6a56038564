"""Tests VecEnv: shapes, autoreset, caller-owned memory, snapshots, refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlox._core import VecEnv, native_env_ids
from rlox.errors import (
    CheckpointError,
    ConfigError,
    EnvError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
)

IDS = native_env_ids()


def random_actions(vec, rng):
    if vec.n_actions is not None:
        return rng.integers(0, vec.n_actions, vec.n_envs)
    low, high = vec.action_low, vec.action_high
    return rng.uniform(low, high, (vec.n_envs, vec.action_dim)).astype(np.float32)


def outputs(vec):
    n = vec.n_envs
    return (
        np.empty((n, vec.obs_dim), np.float32),
        np.empty(n),
        np.empty(n, bool),
        np.empty(n, bool),
    )


@pytest.mark.parametrize("env_id", IDS)
def test_a_step_returns_arrays_of_the_documented_shapes_and_dtypes(env_id):
    vec = VecEnv(n=3, seed=42, env_id=env_id)
    assert vec.reset_all().shape == (3, vec.obs_dim)
    step = vec.step_all(random_actions(vec, np.random.default_rng(0)))
    assert {name: (array.dtype.name, array.shape) for name, array in step.items()} == {
        "obs": ("float32", (3, vec.obs_dim)),
        "rewards": ("float64", (3,)),
        "terminated": ("bool", (3,)),
        "truncated": ("bool", (3,)),
        "final_obs": ("float32", (3, vec.obs_dim)),
        "final_mask": ("bool", (3,)),
    }


@pytest.mark.parametrize("env_id", IDS)
def test_step_into_equals_step_all(env_id):
    left, right = VecEnv(9, 4, env_id), VecEnv(9, 4, env_id)
    rng, out = np.random.default_rng(1), outputs(right)
    endings = 0
    for _ in range(2 * left.max_episode_steps + 10):
        actions = random_actions(left, rng)
        step = left.step_all(actions)
        finals = right.step_into(actions, *out)
        for name, array in zip(("obs", "rewards", "terminated", "truncated"), out, strict=True):
            np.testing.assert_array_equal(step[name], array)
        ended = np.flatnonzero(step["terminated"] | step["truncated"])
        np.testing.assert_array_equal(np.flatnonzero(step["final_mask"]), ended)
        assert (finals is None) == (len(ended) == 0)
        expected = step["obs"].copy()
        if finals is not None:
            indices, last = finals
            assert (indices.dtype, last.dtype) == (np.int64, np.float32)
            np.testing.assert_array_equal(indices, ended)
            assert not np.array_equal(expected[indices], last)
            expected[indices] = last
            endings += len(indices)
        np.testing.assert_array_equal(step["final_obs"], expected)
    assert endings >= 18


def test_observe_into_writes_the_current_observations():
    vec = VecEnv(4, 1)
    obs = np.zeros((4, 4), np.float32)
    vec.observe_into(obs)
    np.testing.assert_array_equal(obs, vec.get_state().astype(np.float32))
    step = vec.step_all([0, 1, 0, 1])
    vec.observe_into(obs)
    np.testing.assert_array_equal(obs, step["obs"])


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        torch.tensor,
        lambda actions: actions.astype(np.int32),
        lambda actions: actions.astype(np.uint8),
        lambda actions: actions.astype(bool),
        lambda actions: actions[:, None],
        lambda actions: np.repeat(actions, 2)[::2],
    ],
    ids=["list", "tensor", "int32", "uint8", "bool", "column", "strided"],
)
def test_discrete_actions_may_be_any_integers(convert):
    actions = np.array([0, 1, 1, 0, 1])
    plain = VecEnv(5, 2).step_all(actions)
    np.testing.assert_array_equal(VecEnv(5, 2).step_all(convert(actions))["obs"], plain["obs"])


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        torch.tensor,
        lambda actions: actions.astype(np.float64),
        lambda actions: actions[:, 0],
        np.asfortranarray,
        lambda actions: np.clip(actions, -2, 2),
    ],
    ids=["list", "tensor", "float64", "flat", "fortran", "clipped"],
)
def test_box_actions_may_be_any_numbers_clipped_or_not(convert):
    actions = np.array([[0.5], [-3.0], [7.0]], np.float32)
    plain = VecEnv(3, 2, "Pendulum-v1").step_all(actions)
    other = VecEnv(3, 2, "Pendulum-v1").step_all(convert(actions))
    np.testing.assert_array_equal(plain["obs"], other["obs"])
    np.testing.assert_array_equal(plain["rewards"], other["rewards"])


CARTPOLE_REFUSALS = [
    (ShapeError, "actions has shape \\[2\\]", [0, 1]),
    (ShapeError, "actions has shape", [[0, 1, 0]]),
    (ShapeError, "actions has shape", 1),
    (ShapeError, "dtype float64, expected integers", [0.0, 1.0, 0.0]),
    (ShapeError, "cannot be read", [[0], [1, 2], [3]]),
    (ShapeError, "dtype", ["left", "left", "right"]),
    (EnvError, "action of env 1 is 2, expected an integer from 0 to 1", [0, 2, 0]),
    (EnvError, "action of env 2 is -1", np.array([0, 0, -1])),
    (EnvError, "action of env 0", np.array([2**64 - 1, 0, 0], np.uint64)),
]
PENDULUM_REFUSALS = [
    (ShapeError, "actions has shape", [[0.0, 0.0]] * 3),
    (NonFiniteError, "actions is NaN at flat index 1", [[0.0], [np.nan], [0.0]]),
    (NonFiniteError, "actions is inf", np.array([0.0, 0.0, 1e300])),
    (ShapeError, "dtype complex128", np.zeros(3, complex)),
]


@pytest.mark.parametrize(
    ("env_id", "error", "match", "actions"),
    [("CartPole-v1", *case) for case in CARTPOLE_REFUSALS]
    + [("Pendulum-v1", *case) for case in PENDULUM_REFUSALS],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_bad_actions_are_refused_before_anything_is_stepped(env_id, error, match, actions):
    vec = VecEnv(3, 0, env_id)
    before = vec.get_state()
    for step in (vec.step_all, lambda actions: vec.step_into(actions, *outputs(vec))):
        with pytest.raises(error, match=match):
            step(actions)
    np.testing.assert_array_equal(vec.get_state(), before)


@pytest.mark.parametrize(
    ("position", "bad"),
    [
        (0, np.empty((3, 4))),
        (0, np.empty((4, 3), np.float32)),
        (0, np.empty((3, 8), np.float32)[:, ::2]),
        (1, np.empty(3, np.float32)),
        (2, np.empty(3, np.uint8)),
        (3, [False] * 3),
    ],
)
def test_step_into_refuses_output_arrays_that_do_not_fit(position, bad):
    vec = VecEnv(3)
    out = list(outputs(vec))
    out[position] = bad
    before = vec.get_state()
    name = ("obs", "rewards", "terminated", "truncated")[position]
    with pytest.raises(ShapeError, match=f"{name} is "):
        vec.step_into([0, 0, 0], *out)
    np.testing.assert_array_equal(vec.get_state(), before)


def test_outputs_must_be_writeable_and_must_not_overlap():
    vec = VecEnv(3)
    obs, rewards, terminated, truncated = outputs(vec)
    with pytest.raises(ShapeError, match=r"truncated.*share memory"):
        vec.step_into([0, 0, 0], obs, rewards, terminated, terminated)
    rewards.flags.writeable = False
    with pytest.raises(ShapeError, match=r"rewards.*writeable"):
        vec.step_into([0, 0, 0], obs, rewards, terminated, truncated)


def test_memory_shared_with_torch_is_written_in_place():
    vec = VecEnv(3)
    obs = torch.empty((5, 3, 4))
    _, *rest = outputs(vec)
    vec.step_into(np.array([0, 1, 0]), obs[2].numpy(), *rest)
    np.testing.assert_array_equal(obs[2].numpy(), vec.get_state().astype(np.float32))


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("env_id", IDS)
def test_a_row_does_not_depend_on_the_other_rows_or_on_threads(env_id, precision):
    few, many = (VecEnv(n, 5, env_id, precision=precision) for n in (2, 17_000))
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = random_actions(many, rng)
        small, large = few.step_all(actions[:2]), many.step_all(actions)
        for name, array in small.items():
            np.testing.assert_array_equal(array, large[name][:2])


def test_explicit_seeds_travel_with_the_environment():
    both = VecEnv(2, seeds=[7, 9]).get_state()
    np.testing.assert_array_equal(both[1:], VecEnv(1, seeds=np.array([9])).get_state())
    assert not np.array_equal(both[0], both[1])


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("env_id", IDS)
def test_a_restored_snapshot_continues_bit_for_bit_under_any_seed(env_id, precision):
    vec, rng = VecEnv(6, 1, env_id, precision=precision), np.random.default_rng(2)
    for _ in range(77):
        vec.step_all(random_actions(vec, rng))
    saved = vec.snapshot()
    other = VecEnv(6, 999, env_id, precision=precision)
    other.restore(saved)
    for _ in range(vec.max_episode_steps):
        actions = random_actions(vec, rng)
        left, right = vec.step_all(actions), other.step_all(actions)
        for name, array in left.items():
            np.testing.assert_array_equal(array, right[name])
    np.testing.assert_equal(vec.snapshot(), other.snapshot())
    assert not np.array_equal(saved["positions"], vec.snapshot()["positions"])


@pytest.mark.parametrize("leaf", ["state", "elapsed", "seeds", "indices", "positions"])
def test_every_leaf_of_a_snapshot_changes_the_continuation(leaf):
    # Pendulum's episodes end only at step 200, so every leaf takes effect within 210 steps.
    vec, rng = VecEnv(2, 1, "Pendulum-v1"), np.random.default_rng(2)
    saved = vec.snapshot()
    changed = {**saved, leaf: saved[leaf] + (0.01 if leaf == "state" else 2)}
    batch = [random_actions(vec, rng) for _ in range(210)]

    def continuation(snapshot):
        vec.restore(snapshot)
        return np.concatenate([vec.step_all(actions)["obs"] for actions in batch])

    assert not np.array_equal(continuation(saved), continuation(changed))


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (CheckpointError, {"env_id": "Pendulum-v1"}),
        (CheckpointError, {"n_envs": 3}),
        (CheckpointError, {"n_envs": "two"}),
        (CheckpointError, {"format": 1}),
        (CheckpointError, {"precision": "f32"}),
        (CheckpointError, {"precision": "f16"}),
        (ShapeError, {"state": np.zeros((2, 3))}),
        (ShapeError, {"positions": np.zeros(3, np.uint64)}),
        (ShapeError, {"seeds": np.zeros(2)}),
        (NonFiniteError, {"state": np.full((2, 4), np.inf)}),
        (ConfigError, {"elapsed": [0, 500]}),
        (ConfigError, {"elapsed": [0, -1]}),
    ],
)
def test_a_vec_env_refuses_an_invalid_snapshot_and_stays_unchanged(error, change):
    vec = VecEnv(2)
    before = vec.snapshot()
    with pytest.raises(error):
        vec.restore({**before, **change})
    with pytest.raises(CheckpointError, match="has no field"):
        vec.restore({name: value for name, value in before.items() if name not in change})
    np.testing.assert_equal(vec.snapshot(), before)


def test_set_state_sets_state_and_optionally_the_step_counts():
    vec = VecEnv(2, env_id="Pendulum-v1")
    vec.set_state([[1, 2], [3, 4]])
    np.testing.assert_array_equal(vec.get_state(), [[1.0, 2.0], [3.0, 4.0]])
    vec.set_state(np.zeros((2, 2), np.float32), elapsed=[199, 198])
    assert vec.step_all([0.0, 0.0])["truncated"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "state has shape", lambda vec: vec.set_state(np.zeros((2, 3)))),
        (NonFiniteError, "state is NaN", lambda vec: vec.set_state(np.full((2, 4), np.nan))),
        (ConfigError, "elapsed is 500", lambda vec: vec.set_state(np.zeros((2, 4)), [0, 500])),
        (ShapeError, "elapsed", lambda vec: vec.set_state(np.zeros((2, 4)), [0.5, 1.5])),
        (ShapeError, "obs is", lambda vec: vec.observe_into(np.zeros((2, 4)))),
        (UnknownNameError, "did you mean CartPole-v1", lambda _: VecEnv(1, env_id="Cartpole-v1")),
        (UnknownNameError, "known: Acrobot-v1, CartPole-v1", lambda _: VecEnv(1, env_id="Go")),
        (ConfigError, "n is 0", lambda _: VecEnv(0)),
        (ConfigError, "n is -3", lambda _: VecEnv(-3)),
        (ConfigError, "n is", lambda _: VecEnv(2**62)),
        (ConfigError, "n is 2.5", lambda _: VecEnv(2.5)),
        (ConfigError, "seed is None", lambda _: VecEnv(1, None)),
        (ConfigError, 'precision is "f16"', lambda _: VecEnv(1, precision="f16")),
        (ConfigError, "seeds is -1", lambda _: VecEnv(1, seeds=[-1])),
        (ShapeError, "seeds has 2", lambda _: VecEnv(1, seeds=[1, 2])),
        (ConfigError, "seed is 4", lambda _: VecEnv(1, 4, seeds=[1])),
    ],
)
def test_a_vec_env_refuses_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call(VecEnv(2))


def test_reset_all_starts_new_episodes_from_the_same_streams():
    left, right = VecEnv(3, 8), VecEnv(3, 8)
    first = left.get_state()
    left.step_all([0, 0, 0])
    np.testing.assert_array_equal(left.reset_all(), right.reset_all())
    assert not np.array_equal(left.get_state(), first)
    np.testing.assert_array_equal(left.snapshot()["elapsed"], [0, 0, 0])


def test_shards_of_no_environments_are_refused() -> None:
    with pytest.raises(ConfigError, match="shard"):
        VecEnv(4, shard=0)


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("env_id", IDS)
def test_shard_sizes_do_not_change_the_steps_of_a_vec_env(env_id, precision) -> None:
    plain = VecEnv(150, 2, env_id, precision=precision)
    cuts = [(2, 1), (64, 1), (65, 2**20), (100, 1)]
    others = [
        VecEnv(150, 2, env_id, precision=precision, shard=shard, parallel_from=parallel_from)
        for shard, parallel_from in cuts
    ]
    rng = np.random.default_rng(0)
    for _ in range(plain.max_episode_steps + 5 if env_id != "Acrobot-v1" else 60):
        actions = random_actions(plain, rng)
        expected = plain.step_all(actions)
        for other in others:
            got = other.step_all(actions)
            for name in expected:
                np.testing.assert_array_equal(got[name], expected[name])


def test_lists_with_anything_but_integers_are_read_as_arrays() -> None:
    vec = VecEnv(2, 3)
    plain = VecEnv(2, 3).step_all(np.array([1, 0]))["obs"]
    np.testing.assert_array_equal(vec.step_all([True, False])["obs"], plain)
    np.testing.assert_array_equal(VecEnv(2, 3).step_all([np.int32(1), 0])["obs"], plain)
    with pytest.raises(ShapeError, match="dtype float64"):
        vec.step_all([1, 0.5])
    with pytest.raises(ShapeError, match="actions"):
        vec.step_all([2**70, 0])


@pytest.mark.parametrize("shard", [2**62, 2**64 - 1])
def test_a_shard_may_be_larger_than_any_batch(shard: int) -> None:
    plain, cut = VecEnv(3, 1), VecEnv(3, 1, shard=shard)
    for vec in (plain, cut):
        vec.step_all([0, 1, 0])
    np.testing.assert_array_equal(cut.snapshot()["state"], plain.get_state())


@pytest.mark.parametrize(
    ("error", "field", "value"),
    [
        (ConfigError, "seeds", np.array([-1, 2])),
        (ConfigError, "positions", np.array([4, -4], np.int8)),
        (ShapeError, "state", np.zeros((4, 2))),
        (ShapeError, "state", np.zeros(8)),
    ],
)
def test_snapshot_fields_are_never_reinterpreted(error, field, value) -> None:
    vec = VecEnv(2, 1)
    with pytest.raises(error, match=field):
        vec.restore(vec.snapshot() | {field: value})
