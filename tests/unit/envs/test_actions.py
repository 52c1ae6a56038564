"""Tests the conversion between rows of a policy's actions and actions of any action space."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.envs import RandomSpacesEnv
from helpers.factored_actions import CONTEXTS, FORCE, SPACES, env_id, require_form
from numpy.testing import assert_array_equal

from rlox.configs import EnvConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.check.algorithm_fit import algorithm_obstacles
from rlox.envs.make import make_vec
from rlox.errors import ShapeError, UnsupportedSpaceError
from rlox.gym_vec_env import GymVecEnv

TAKEN = [name for name in SPACES if name not in ("Text", "DictWithSequence")]
CORNER = spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), dtype=np.int32, start=np.array([[0, -1], [7, 1]]))
MIXED = spaces.Dict(
    {
        "force": spaces.Box(-1, 1, (2,), np.float64),
        "arm": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiBinary(2)]),
    }
)


def any_rows(codec: ActionCodec, n: int) -> np.ndarray[Any, Any]:
    """Returns rows of valid choices and of numbers beyond most bounds."""
    rng = np.random.default_rng(0)
    choices = [rng.integers(of, size=n) for of in codec.choices]
    numbers = [rng.normal(scale=3.0, size=n) for _ in range(codec.box_dim)]
    rows = np.stack([*choices, *numbers], 1).astype(codec.dtype)
    return rows.reshape(n, *codec.shape)


@pytest.mark.parametrize("name", TAKEN)
def test_decoded_actions_have_the_structure_and_dtype_of_the_action_space(name: str) -> None:
    codec = ActionCodec.of(SPACES[name])
    given = codec.unbatch(codec.to_env(any_rows(codec, 20)))
    assert len(given) == 20
    for action in given:
        require_form(SPACES[name], action)


@pytest.mark.parametrize("name", TAKEN)
def test_a_batch_has_the_form_of_gymnasiums_vector_environments(name: str) -> None:
    space = SPACES[name]
    batch = gym.vector.utils.batch_space(space, 5)
    given = ActionCodec.of(space).to_env(any_rows(ActionCodec.of(space), 5))
    assert batch.contains(given), f"{given} is not in {batch}"


@pytest.mark.parametrize("name", TAKEN)
def test_an_environment_action_survives_the_conversion_to_a_row_and_back(name: str) -> None:
    codec = ActionCodec.of(SPACES[name])
    given = codec.to_env(any_rows(codec, 7))
    rows = codec.from_env(given, 7)
    assert (rows.shape, rows.dtype) == ((7, *codec.shape), codec.dtype)
    for one, other in zip(codec.unbatch(codec.to_env(rows)), codec.unbatch(given), strict=True):
        assert repr(one) == repr(other)


def test_rows_hold_choices_before_numbers_in_the_order_of_the_space() -> None:
    codec = ActionCodec.of(MIXED)
    assert list(MIXED.spaces) == ["arm", "force"]  # Gymnasium sorts the keys
    assert (codec.choices, codec.box_dim, codec.size, codec.shape) == ((3, 2, 2), 2, 9, (5,))
    assert (str(codec.dtype), codec.row_bytes, codec.kind) == ("float32", 20, "factored")
    assert codec.names == ("arm[0]", "arm[1][0]", "arm[1][1]")
    given = codec.unbatch(codec.to_env(np.array([[2, 0, 1, 0.5, -7.0]], np.float32)))[0]
    assert (int(given["arm"][0]), given["arm"][1].tolist()) == (1, [0, 1])
    assert given["force"].tolist() == [0.5, -1.0]


def test_choices_alone_give_int64_rows_and_a_single_choice_gives_a_scalar() -> None:
    codec = ActionCodec.of(CORNER)
    assert (codec.choices, str(codec.dtype), codec.shape) == ((2, 3, 4, 2), "int64", (4,))
    assert codec.names == ("[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]")
    given = codec.to_env(np.array([[1, 2, 0, 1], [0, 0, 3, 0]]))
    assert_array_equal(given, np.array([[[1, 1], [7, 2]], [[0, -1], [10, 1]]]))
    single = ActionCodec.of(spaces.Discrete(3, start=5, dtype=np.uint8))
    assert (single.shape, str(single.dtype), single.kind) == ((), "int64", "Discrete")
    assert single.names == ("",)
    given = single.to_env(np.array([0, 2]))
    assert (given.tolist(), given.dtype) == ([5, 7], np.uint8)


def test_boxes_are_cut_at_each_of_their_bounds_and_nowhere_else() -> None:
    low, high = np.array([-np.inf, -1.0, 0.0]), np.array([np.inf, np.inf, 0.25])
    codec = ActionCodec.of(spaces.Box(low, high, dtype=np.float64))
    rows = np.array([[-1e9, -1e9, -1e9], [1e9, 1e9, 1e9]], np.float32)
    assert codec.to_env(rows).tolist() == [[-1e9, -1.0, 0.0], [1e9, 1e9, 0.25]]
    half = ActionCodec.of(spaces.Box(-np.inf, np.inf, (1,), np.float16))
    assert half.to_env(np.array([[1e6], [-1e6]], np.float32)).tolist() == [[65504.0], [-65504.0]]


def test_integer_boxes_round_actions_to_nearest_with_halves_to_even() -> None:
    codec = ActionCodec.of(spaces.Box(-2, 3, (8,), np.int8))
    rows = np.array([[0.4, 0.6, 0.5, 1.5, -0.5, -1.6, 3.4, -1e30]], np.float32)
    given = codec.to_env(rows)
    assert (given.tolist(), given.dtype) == ([[0, 1, 0, 2, 0, -2, 3, -2]], np.int8)
    widest = np.iinfo(np.int64)
    codec = ActionCodec.of(spaces.Box(widest.min, widest.max, (2,), np.int64))
    assert codec.to_env(np.array([[1e30, -1e30]], np.float32)).tolist() == [[widest.max, widest.min]]


def test_unit_codec_joins_boxes_into_one_vector_in_minus_one_to_one() -> None:
    brake = spaces.Box(np.array([0.0, -4.0]), np.array([1.0, 4.0]), dtype=np.float64)
    whole = spaces.Box(0, 10, (1,), np.int64)
    space = spaces.Tuple([brake, spaces.Dict({"wheel": whole})])
    codec = ActionCodec.of(space).unit_codec("env", "sac")
    assert (codec.kind, codec.shape, str(codec.dtype)) == ("Box", (3,), "float32")
    given = codec.unbatch(codec.to_env(np.array([[-1, 0.5, 1], [1, -1, -0.5]], np.float32)))
    assert [g[0].tolist() for g in given] == [[0.0, 2.0], [1.0, -4.0]]
    assert [g[1]["wheel"].tolist() for g in given] == [
        [10],
        [2],
    ]  # 2.5 is rounded to 2, the even number
    one_sided: Any = spaces.Dict({"brake": brake, "on": spaces.Box(0, np.inf, (1,), np.float32)})
    with pytest.raises(UnsupportedSpaceError, match=r"^sac needs Box actions with finite bounds, but env"):
        ActionCodec.of(one_sided).unit_codec("env", "sac")


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (
            spaces.Text(3),
            r"^env has action space Text\(.*expected Discrete, MultiDiscrete, .*; wrap",
        ),
        (SPACES["DictWithSequence"], r"^env, part path, has action space Sequence\(Box"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Dict()]), r"part \[1\], .* Dict\(\), expe"),
        (spaces.Dict(), r"^env has action space Dict\(\), which has nothing to choose"),
        (
            spaces.Box(0, 1, (0,)),
            "which has nothing to choose, expected at least one number or choi",
        ),
        (
            spaces.Dict({"far": spaces.Discrete(2**24 + 1), "by": spaces.Box(0, 1, (1,))}),
            r"with 16777217 choices next to a Box, expected at most 16777216",
        ),
    ],
)
def test_action_codec_refuses_unsupported_spaces_and_names_the_part(space: Any, told: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match=told):
        ActionCodec.of(space, "env")


def test_the_dictionary_interface_takes_actions_as_the_environment_does() -> None:
    made: list[RandomSpacesEnv] = []

    def make() -> RandomSpacesEnv:
        made.append(RandomSpacesEnv(spaces.Discrete(2), MIXED))
        return made[-1]

    vec = GymVecEnv(make, 2)
    vec.reset_all()
    arm = (np.array([-1, 1]), np.array([[0, 1], [1, 1]]))
    vec.step_all({"arm": arm, "force": [[0.5, 2.0], [-0.25, -3.0]]})
    first, second = (env.actions_taken[0] for env in made)
    assert (int(first["arm"][0]), first["arm"][1].tolist()) == (-1, [0, 1])
    assert (first["force"].tolist(), second["force"].tolist()) == ([0.5, 1.0], [-0.25, -1.0])
    assert int(second["arm"][0]) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"force": np.zeros((2, 2))}, r"actions arm\[0\] are missing, expected \(2,\)"),
        ({"arm": (np.zeros(2), np.zeros((2, 2)))}, r"actions force are missing, expected"),
        ({"arms": 0}, r"actions: \['arms'\], expected a dict with the keys \['arm', 'force'\]"),
        ([0, 1], "actions: list, expected a dict with"),
        (
            {"arm": np.zeros(2), "force": np.zeros((2, 2))},
            "actions arm: ndarray, expected a tuple of 2",
        ),
        (
            {"arm": (np.zeros(2), np.zeros((2, 3))), "force": np.zeros((2, 2))},
            r"actions arm\[1\] have shape \(2, 3\), float64, expected \(2, 2\)",
        ),
        (
            {"arm": (["a", "b"], np.zeros((2, 2))), "force": np.zeros((2, 2))},
            r"actions arm\[0\] have shape \(2,\), <U1, expected \(2,\)",
        ),
        (
            {"arm": (np.zeros(2), [[1], [0, 1]]), "force": np.zeros((2, 2))},
            r"actions arm\[1\] are of unequal lengths, expected \(2, 2\)",
        ),
        (
            {"arm": (np.zeros(2) + 0.5, np.zeros((2, 2))), "force": np.zeros((2, 2))},
            "are not whole numbers, as Discrete",
        ),
    ],
)
def test_from_env_refuses_malformed_actions_and_names_the_part(given: Any, told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        ActionCodec.of(MIXED).from_env(given, 2)


ANY = ("ppo", "a2c", "recurrent_ppo", "bc")


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("DiscreteFromFive", {*ANY, "pqn", "dqn", "rainbow", "sac", "cql", "decision_transformer"}),
        (
            "DictOfBoxes",
            {*ANY, "sac", "tqc", "td3", "ddpg", "td3_bc", "iql", "cql", "decision_transformer"},
        ),
        ("Nested", {*ANY}),
        ("DictWithSequence", set()),
    ],
)
def test_the_check_of_an_environment_says_which_algorithms_take_its_actions(
    name: str, takes: set[str]
) -> None:
    found = algorithm_obstacles("env", spaces.Discrete(2), SPACES[name])
    assert {algo for algo, why in found.items() if not why} == takes
    assert name != "Nested" or found["dqn"] == "needs Discrete"
    assert name != "DictWithSequence" or found["dqn"].startswith("env, part path, has action space")


def test_subprocess_workers_receive_the_same_actions_as_in_process_environments() -> None:
    config = {"id": env_id("Nested"), "n_envs": 2}
    vecs = [make_vec(EnvConfig(**config, workers=w), 7) for w in ("sync", "subprocess")]  # type: ignore[arg-type]
    try:
        rows = any_rows(vecs[0].actions, 8).reshape(4, 2, -1)
        steps = [played(vec, rows) for vec in vecs]
    finally:
        vecs[1].close()
    assert steps[0] == steps[1]
    assert len(set(steps[0][1])) > 1


def played(vec: Any, rows: np.ndarray[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Plays actions `[T, N, columns]`; returns the observations and the rewards."""
    obs, rewards, ended = np.zeros((2, CONTEXTS), np.float32), np.zeros(2), np.zeros((2, 2), bool)
    vec.reset_into(obs)
    seen, paid = [obs.tolist()], []
    for actions in rows:
        vec.step_into(actions, obs, rewards, *ended)
        seen.append(obs.tolist())
        paid += rewards.tolist()
    return seen, paid


def test_scoring_width_counts_every_choice_with_the_largest_size() -> None:
    codec = ActionCodec.of(spaces.Dict({"a": spaces.MultiDiscrete([3, 2, 4]), "b": FORCE}))
    assert (codec.scoring_width, codec.size) == (3 * 4 + 1, 3 + 2 + 4 + 1)
    assert ActionCodec.of(spaces.Discrete(6)).scoring_width == 6
    assert ActionCodec.of(FORCE).scoring_width == 1


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Discrete(3, start=-1), [7]),
        (spaces.Discrete(3, start=-1), [-2]),
        (spaces.MultiDiscrete([3, 2]), [[0, 2]]),
        (spaces.MultiBinary(2), [[0, 2]]),
    ],
)
def test_a_number_that_is_no_choice_is_refused(space: Any, actions: Any) -> None:
    with pytest.raises(ShapeError, match=r"action (7|-2|2) is no choice of"):
        ActionCodec.of(space).from_env(np.array(actions), 1)


def test_the_first_and_the_last_choice_are_choices() -> None:
    codec = ActionCodec.of(spaces.Discrete(3, start=-1))
    assert codec.from_env(np.array([-1, 1]), 2).tolist() == [0, 2]
    assert codec.to_env(codec.from_env(np.array([-1, 1]), 2)).tolist() == [-1, 1]


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([3, 2]), FORCE])
def test_an_empty_batch_of_rows_gives_an_empty_batch_of_actions(space: Any) -> None:
    codec = ActionCodec.of(space)
    none = codec.to_env(np.empty((0, *codec.shape), codec.dtype))
    assert none.shape == (0, *space.shape)


def test_masked_actions_are_refused() -> None:
    given = np.ma.masked_array([0, 1], [False, True])
    with pytest.raises(ShapeError, match=r"^actions: some of it is masked, expected numbers; fill it"):
        ActionCodec.of(spaces.Discrete(2)).from_env(given, 2)
