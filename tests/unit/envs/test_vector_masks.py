"""Tests masks of vectorised environments from every source: equal to those of single ones, or refused."""

from __future__ import annotations

import re
from functools import partial
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from helpers.envs import AlwaysTruncates, MixedBounds
from helpers.masked_envs import MaskedByMethod, RolloutRecorder, make_doors, make_masked, open_doors
from helpers.selection import each_value_once
from helpers.vectors import MODES

from rlox.algorithms import A2C, DQN, PPO
from rlox.configs import EnvConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import make_vec
from rlox.errors import ConfigError, EnvError, UnsupportedSpaceError

SOURCES = ("info", "method", "observation")
WAYS = [way for way in product(MODES, SOURCES) if way != (AutoresetMode.SAME_STEP, "method")]
TRAINED = [(*way, kind) for way, kind in product(WAYS, (PPO, A2C, DQN))]


def vec_of(make: Any, source: str, n_envs: int = 3, **config: Any) -> VectorEnv:
    return make_vec(EnvConfig("doors", n_envs=n_envs, action_mask=source, **config), 7, make)


@pytest.mark.parametrize(("mode", "source"), WAYS)
def test_every_row_of_an_engine_has_the_mask_of_its_own_state(mode: AutoresetMode, source: str) -> None:
    played = RolloutRecorder(vec_of(partial(make_doors, mask_source=source, mode=mode), source), 40)

    def belongs(row: Any) -> bool:
        over = row[3] == 1  # at the end no door is open and no action follows
        return bool(row[6:].tolist() == ([1.0] * 6 if over else open_doors(row[:6])))

    assert all(belongs(row) for rows in played.rows for row in rows)
    ends = [(t, last) for t, finals in played.finals for last in finals.obs]
    assert all(belongs(last) for _, last in ends)
    assert {bool(last[3]) for _, last in ends} == {True, False}


@pytest.mark.parametrize("source", SOURCES)
def test_same_step_and_disabled_engines_give_the_masked_rows_of_single_environments(source: str) -> None:
    mode = AutoresetMode.DISABLED if source == "method" else AutoresetMode.SAME_STEP
    engine = vec_of(partial(make_doors, mask_source=source, mode=mode), source, seeding="offset")
    single = vec_of(partial(make_masked, source), source, seeding="offset")
    mine, others = RolloutRecorder(engine, 30), RolloutRecorder(single, 30)
    np.testing.assert_array_equal(mine.rows, others.rows)
    for (t, finals), (other_t, other) in zip(mine.finals, others.finals, strict=True):
        assert t == other_t
        np.testing.assert_array_equal(finals.obs, other.obs)


def test_an_async_engine_gives_the_masks_of_its_subprocesses() -> None:
    def make(num_envs: int) -> AsyncVectorEnv:
        return AsyncVectorEnv([MaskedByMethod] * num_envs)

    vec = vec_of(make, "method", n_envs=2)
    try:
        rows = np.concatenate(RolloutRecorder(vec, 2).rows)
    finally:
        vec.close()
    assert [row[6:].tolist() for row in rows] == [open_doors(row[:6]) for row in rows]


@pytest.mark.parametrize(("mode", "source", "kind"), each_value_once(TRAINED))
def test_algorithms_take_no_masked_action_of_an_engine_in_training_or_evaluation(
    mode: AutoresetMode, source: str, kind: Any
) -> None:
    settings = {"learning_starts": 16} if kind is DQN else {"n_steps": 8}
    algorithm = kind(
        partial(make_doors, mask_source=source, mode=mode), n_envs=2, action_mask=source, net_arch=(8,),
        seed=1, **settings,
    )  # fmt: skip
    algorithm.train(96)
    assert algorithm.evaluate(4).lengths == algorithm.evaluate(4, n_envs=1).lengths
    algorithm.close()


def test_an_id_names_an_engine_with_masks() -> None:
    algorithm = PPO("helpers.masked_envs:make_doors", n_envs=2, n_steps=8, action_mask="info")
    assert algorithm.source.collector.env.observations.mask_dim == 6
    algorithm.train(32)
    assert len(algorithm.evaluate(3).returns) == 3
    algorithm.close()


class Engine(gym.vector.VectorEnv[Any, Any, Any]):
    """Two copies that never end and give `masks` in one way, always from the same memory."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  as Gymnasium declares it

    def __init__(self, num_envs: int, masks: Any, tells: str = "info", actions: Any = None) -> None:
        self.num_envs, self.tells = num_envs, tells
        self.masks = masks
        self.single_action_space = actions or spaces.Discrete(3)
        seen: Any = spaces.Box(-1, 1, (2,), np.float32)
        if tells == "observation":
            seen = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": seen})
        self.single_observation_space = seen

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self._seen(), self._infos()

    def step(self, actions: Any) -> Any:
        nobody = np.zeros(self.num_envs, bool)
        return self._seen(), np.zeros(self.num_envs), nobody, nobody.copy(), self._infos()

    def action_masks(self) -> Any:
        if isinstance(self.masks, Exception):
            raise self.masks
        return self.masks

    def _seen(self) -> Any:
        seen = np.zeros((self.num_envs, 2), np.float32)
        return {"action_mask": self.masks, "seen": seen} if self.tells == "observation" else seen

    def _infos(self) -> dict[str, Any]:
        if self.tells != "info":
            return {}
        return self.masks if isinstance(self.masks, dict) else {"action_mask": self.masks}


def begun(masks: Any, tells: str = "info", actions: Any = None) -> Any:
    """Returns the masks in the first rows of two copies."""
    vec = vec_of(lambda num_envs: Engine(num_envs, masks, tells, actions), tells, n_envs=2)
    rows = vec.observations.rows(2)
    vec.reset_into(rows)
    return rows[:, vec.observations.input_dim :].tolist()


BOTH = [[1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("tells", SOURCES)
@pytest.mark.parametrize("kind", [bool, np.int8, np.float32, np.int64])
def test_masks_of_an_engine_are_an_array_of_any_kind_of_number(tells: str, kind: Any) -> None:
    assert begun(np.array(BOTH, kind), tells) == BOTH


@pytest.mark.parametrize(
    "masks",
    [
        BOTH,
        {"action_mask": np.array(BOTH), "_action_mask": np.array([True, True])},
        np.array([[1, 0, 1], None, [0, 1, 1]], dtype=object)[[0, 2]],
        tuple(map(tuple, BOTH)),
    ],
    ids=["lists", "with-flags", "objects", "tuples"],
)
def test_an_engine_may_give_one_mask_per_environment_in_any_sequence(masks: Any) -> None:
    assert begun(masks) == BOTH


def test_masks_of_parts_are_dicts_and_tuples_of_arrays() -> None:
    gear, lamp = np.array([[1, 0], [1, 1]]), np.array([[0, 1, 1], [1, 0, 0]])
    rows = [[1, 0, 0, 1, 1], [1, 1, 1, 0, 0]]
    parts = {"gear": spaces.Discrete(2), "lamp": spaces.Discrete(3)}
    told = {"gear": gear, "_gear": np.array([True, True]), "lamp": lamp}
    assert begun({"action_mask": told}, actions=spaces.Dict(parts)) == rows
    assert begun((gear, lamp), actions=spaces.Tuple(parts.values())) == rows
    assert begun(told, "method", spaces.Dict(parts)) == rows


def test_rows_keep_their_masks_when_the_engine_overwrites_its_array() -> None:
    masks = np.array(BOTH)
    vec = vec_of(lambda num_envs: Engine(num_envs, masks), "info", n_envs=2)
    rows = vec.observations.rows(2)
    vec.reset_into(rows)
    masks[:] = 77
    assert rows[:, 2:].tolist() == BOTH


WRONG = [
    (np.ones(3), r"is of shape [3], expected [2, 3] of 0 and 1: one mask per environment"),
    (np.ones((3, 3)), r"is of shape [3, 3], expected [2, 3]"),
    (None, "is a NoneType, expected [2, 3]"),
    ([[1, 1, 1]], "is a list of 1, expected [2, 3]"),
    (np.ones((2, 2)), "doors (copy 0), {}, has shape [2], expected [3]"),
    (np.array([[1, 0, 1], [2, 0, 0]]), "doors (copy 1), {}, has 2, expected [3] of 0 and 1"),
    (np.array([[1, 0, 1], [np.nan, 0, 0]]), "doors (copy 1), {}, has nan, expected [3]"),
    (np.array([["a"] * 3] * 2), "doors (copy 0), {}, has dtype <U1, expected [3]"),
    (np.array([[1, 0, 1], [0, 0, 0]]), "doors (copy 1), {}, allows no action, expected at"),
    ([[1, 0, 1], [1, [1], 0]], "doors (copy 1), {}, has lists of unequal lengths"),
]
WHERE = {
    "info": "'action_mask' in the info of reset",
    "method": "action_masks() after reset",
    "observation": "'action_mask' in the observation of reset",
}


@pytest.mark.parametrize("tells", SOURCES)
@pytest.mark.parametrize(("masks", "told"), WRONG, ids=[told for _, told in WRONG])
def test_the_error_for_an_engines_invalid_mask_names_the_copy_and_the_place(
    masks: Any, told: str, tells: str
) -> None:
    with pytest.raises(EnvError, match=re.escape(told.format(WHERE[tells]))) as found:
        begun(masks, tells)
    assert WHERE[tells] in str(found.value)


def test_a_copy_without_a_mask_is_named() -> None:
    some = {"action_mask": np.array(BOTH), "_action_mask": np.array([True, False]), "x": [1, 2]}
    with pytest.raises(EnvError, match=r"doors \(copy 1\) gives no action mask: the info of reset has"):
        begun(some)
    with pytest.raises(EnvError, match="doors gives no action mask: the info of reset has 'x', expected"):
        begun({"x": np.zeros(2)})


def test_a_method_that_fails_is_named() -> None:
    with pytest.raises(EnvError, match=r"doors raised KeyError in action_masks\(\)"):
        begun(KeyError("board"), "method")


AT_ONCE = partial(make_doors, mask_source="method", mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize(
    ("make", "source", "kind", "told"),
    [
        (AT_ONCE, "method", ConfigError, "SAME_STEP"),
        (make_doors, "method", ConfigError, r"doors has no method action_masks\(\)"),
        (make_doors, "observation", UnsupportedSpaceError, "doors has no part 'action_mask'"),
        (
            lambda num_envs: SyncVectorEnv([MixedBounds] * num_envs),
            "info",
            UnsupportedSpaceError,
            "with choices",
        ),
    ],
)
def test_an_engine_without_masks_in_the_given_source_is_refused_before_it_steps(
    make: Any, source: str, kind: Any, told: str
) -> None:
    with pytest.raises(kind, match=told):
        vec_of(make, source)


def test_the_error_for_a_last_observation_without_mask_names_the_place() -> None:
    class Forgets(gym.vector.VectorWrapper):
        def step(self, actions: Any) -> Any:
            *rest, infos = self.env.step(actions)
            infos.pop("final_info", None)
            return *rest, infos

    def make(num_envs: int) -> Any:
        return Forgets(make_doors(num_envs, mode=AutoresetMode.SAME_STEP))

    with pytest.raises(EnvError, match=r"no action mask: the info of step \(final_info, final_obs\)"):
        RolloutRecorder(vec_of(make, "info"), 40)


def test_the_error_for_an_engine_without_masks_names_the_info_of_reset() -> None:
    def make(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([AlwaysTruncates] * num_envs)

    with pytest.raises(EnvError, match="gives no action mask: the info of reset has nothing"):
        vec_of(make, "info").reset_into(np.zeros((3, 3), np.float32))
