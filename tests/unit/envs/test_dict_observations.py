"""Tests that a Dict observation becomes one row, as Gymnasium flattens it, in every part of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import RandomSpacesEnv
from helpers.goal_env import GoalLine
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlox import GymVecEnv
from rlox.algorithms import PPO
from rlox.envs.parts_codec import codec_of
from rlox.errors import EnvError, ShapeError, UnsupportedSpaceError

PARTS = st.one_of(
    st.builds(
        lambda shape, dtype: spaces.Box(-9, 9, shape, dtype),
        st.lists(st.integers(1, 3), max_size=3).map(tuple),
        st.sampled_from([np.float32, np.float64, np.int64, np.int8]),
    ),
    st.builds(spaces.Discrete, st.integers(1, 4), start=st.integers(-2, 3)),
)
DICTS = st.dictionaries(st.sampled_from("abcxyz"), PARTS, min_size=1, max_size=4).map(spaces.Dict)
SMALL: dict[str, Any] = {"n_envs": 3, "n_steps": 16, "n_epochs": 2, "batch_size": 16, "seed": 4}
BOTH = {"normalize_obs": True, "normalize_reward": True}


@given(DICTS, st.integers(0, 2**16), st.integers(1, 3))
def test_rows_equal_gymnasiums_flattened_observations_and_split_into_parts(
    space: spaces.Dict, seed: int, n: int
) -> None:
    space.seed(seed)
    codec, given_ones = codec_of(space), [space.sample() for _ in range(n)]
    expected = np.stack([spaces.flatten(space, one).astype(np.float32) for one in given_ones])
    rows = np.full((n, codec.dim), np.nan, np.float32)
    for one, row in zip(given_ones, rows, strict=True):
        codec.encode_into(one, row)
    batch = {name: np.stack([one[name] for one in given_ones]) for name in space}
    for found in (rows, codec.encode_batch(batch), codec.encode_batch(given_ones)):
        assert found.dtype == np.float32
        assert np.array_equal(found, expected)
    assert [codec.is_single(one) for one in (given_ones[0], batch, given_ones)] == [
        True,
        False,
        False,
    ]
    assert np.array_equal(codec.encode_one(given_ones[0]), expected[:1])
    parts = codec.split(rows)
    for name, part in space.items():
        one_by_one = [spaces.flatten(part, one[name]) for one in given_ones]
        assert np.array_equal(parts[name], np.stack(one_by_one).astype(np.float32))
        assert parts[name].base is rows
    assert np.array_equal(codec.join(dict(reversed(parts.items()))), rows)
    assert np.array_equal(codec.join(codec.split(rows[0])), rows[0])
    tensors = codec.split(torch.from_numpy(rows))
    assert all(np.array_equal(tensors[name].numpy(), parts[name]) for name in parts)


BOX = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Text(3)})}), "part 'b', part 'c', .*flatten"),
        (spaces.Dict({"a": spaces.Tuple([BOX, spaces.Graph(BOX, None)])}), "part 'a', part '1', .*Boxes"),
        (spaces.Dict({"a": spaces.Sequence(BOX)}), "part 'a', has .*pad it to a Box"),
        (spaces.Dict({"a": spaces.OneOf([BOX, BOX])}), "part 'a', has .*Dict with a"),
        (spaces.Dict({}), "empty Dict"),
        (spaces.Tuple([spaces.Dict({}), spaces.Tuple([])]), "empty Tuple"),
        (spaces.Box(0, 1, (0, 3)), "empty Box"),
    ],
)  # fmt: skip
def test_a_part_of_no_fixed_size_is_refused_by_name_and_with_the_wrapper_that_helps(
    space: gym.Space[Any], told: str
) -> None:
    with pytest.raises(UnsupportedSpaceError, match=told):
        GymVecEnv(lambda: RandomSpacesEnv(space, spaces.Discrete(2)), 1)


class Broken(GoalLine):
    def __init__(self, change: dict[str, Any], lost: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.change, self.lost = change, lost

    def observe(self) -> Any:
        seen = {**super().observe(), **self.change}
        return {name: part for name, part in seen.items() if name not in self.lost}


@pytest.mark.parametrize(
    ("change", "lost", "told"),
    [
        ({"extra": 1}, (), "'extra'.*expected"),
        ({}, ("phase",), "parts .*expected .*'phase'"),
        ({"phase": 0}, (), "part 'phase'"),
        ({"phase": 4}, (), "part 'phase'"),
        ({"observation": np.zeros(3)}, (), r"part 'observation'.*shape \(3,\), expected"),
        ({"observation": None}, (), "part 'observation'"),
    ],
)
def test_an_observation_that_breaks_its_dict_is_an_error_naming_the_part(
    change: dict[str, Any], lost: tuple[str, ...], told: str
) -> None:
    vec = GymVecEnv(lambda: Broken(change, lost), 1)
    with pytest.raises(EnvError, match=told):
        vec.reset_all()


def test_split_and_join_refuse_rows_or_parts_of_another_shape() -> None:
    codec = codec_of(GoalLine().observation_space)
    parts = codec.split(np.zeros((2, codec.dim), np.float32))
    for rows in (np.zeros((2, codec.dim + 1)), np.zeros(0)):
        with pytest.raises(ShapeError, match="cannot be split"):
            codec.split(rows)
    for wrong in ({**parts, "more": parts["phase"]}, {**parts, "phase": parts["phase"][:, :2]}, {}):
        with pytest.raises(ShapeError, match="cannot be joined"):
            codec.join(wrong)
    with pytest.raises(ShapeError, match="cannot be split"):
        codec_of(BOX).split(np.zeros((2, 2)))


def played(vec: GymVecEnv, steps: int) -> list[dict[str, NDArray[Any]]]:
    rng = np.random.default_rng(0)
    return [vec.step_all(rng.integers(0, 2, vec.n_envs)) for _ in range(steps)]


def test_final_observations_survive_a_reset_in_and_out_of_process() -> None:
    """The environment's reset overwrites the arrays that it returned before."""
    vecs = [GymVecEnv(GoalLine, 2, seed=7, workers=w) for w in ("sync", "subprocess")]
    codec = vecs[0].vec.observations
    try:
        assert np.array_equal(*(vec.reset_all() for vec in vecs))
        here, there = (played(vec, 40) for vec in vecs)
    finally:
        vecs[1].close()
    assert all(np.array_equal(a[key], b[key]) for a, b in zip(here, there, strict=True) for key in a)
    ended = [(step, i) for step in there for i in np.flatnonzero(step["final_mask"])]
    assert len({bool(step["truncated"][i]) for step, i in ended}) == 2
    for step, i in ended:
        last, first = codec.split(step["final_obs"][i]), codec.split(step["obs"][i])
        at_goal = last["achieved_goal"][0] == last["desired_goal"][0]
        assert at_goal == step["terminated"][i] != step["truncated"][i]
        assert last["observation"][1] == 8 or at_goal
        assert first["observation"][:2].tolist() == [0, 0]
        assert first["phase"].tolist() == [1, 0, 0]


def weights(algorithm: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@pytest.mark.parametrize("options", [{}, BOTH, {"workers": "subprocess"}])
def test_training_on_a_dict_equals_training_on_the_same_environment_flattened(
    options: dict[str, Any],
) -> None:
    results = []
    for source in (GoalLine, lambda: gym.wrappers.FlattenObservation(GoalLine())):
        algorithm = PPO(source, **SMALL, **options)
        algorithm.train(240)
        results.append((weights(algorithm), algorithm.evaluate(5).returns))
        algorithm.close()
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


@pytest.mark.parametrize("options", [{}, BOTH])
def test_a_saved_run_with_dict_observations_resumes_exactly(options: dict[str, Any], tmp_path: Path) -> None:
    original = PPO(GoalLine, **SMALL, **options)
    original.train(120)
    original.save(tmp_path / "saved")
    loaded = PPO.from_checkpoint(tmp_path / "saved", env_id=GoalLine)
    assert loaded.source.resume_grade == "exact"
    rows = [algorithm.train(360) for algorithm in (original, loaded)]
    assert rows[0] == rows[1]
    assert torch.equal(weights(original), weights(loaded))
    assert original.recent.state() == loaded.recent.state()


def test_predict_gives_the_same_actions_for_dicts_and_their_rows() -> None:
    algorithm = PPO(GoalLine, **SMALL, **BOTH)
    algorithm.train(96)
    space, codec = algorithm.collector.env.observation_space, algorithm.collector.env.observations
    space.seed(1)
    several = [space.sample() for _ in range(30)]
    normalizer = algorithm.collector.obs_normalizer
    assert normalizer is not None
    rows = np.stack([spaces.flatten(space, one) for one in several]).astype(np.float32)
    normalizer.apply(rows)
    with torch.no_grad():
        expected = algorithm.policy.mode(torch.from_numpy(rows)).tolist()
    assert len(set(expected)) == 2
    batch = {name: np.stack([one[name] for one in several]) for name in space}
    assert algorithm.predict(batch).tolist() == expected
    assert algorithm.predict(several).tolist() == expected
    assert [algorithm.predict(one) for one in several] == expected
    assert type(algorithm.predict(several[0])) is int
    assert codec.dim == 9


@pytest.mark.parametrize(
    "observation",
    [
        np.zeros(9),
        {"phase": 1},
        {**GoalLine().obs, "observation": np.zeros(3)},
        {**GoalLine().obs, "phase": [1]},
        {**GoalLine().obs, "phase": [1, 1]},
        [GoalLine().obs, {}],
        None,
    ],
)
def test_an_observation_without_the_spaces_parts_is_not_predicted(observation: Any) -> None:
    algorithm = PPO(GoalLine, **SMALL)
    with pytest.raises(ShapeError, match=r"expected .*'phase': \(\).* or a batch"):
        algorithm.predict(observation)
