"""Tests masks of actions with several parts: as one vector or by part, and the errors that name a part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.factored_actions import CONTEXTS, SPACES, MaskedMatch, Match

from rlox.algorithms import A2C, DQN, PPO
from rlox.configs import EnvConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import make_vec
from rlox.envs.mask_forms import MaskForm
from rlox.errors import EnvError, ShapeError, UnsupportedSpaceError

WITH_CHOICES = [
    "MultiDiscrete", "MultiDiscreteGrid", "MultiBinary", "DictMixed", "TupleOfChoices", "Nested",
]  # fmt: skip


def vec_of(make: Any) -> Any:
    return make_vec(EnvConfig(id="barred", n_envs=2, action_mask="info"), 7, make)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", WITH_CHOICES)
def test_a_mask_by_parts_equals_the_concatenated_mask_of_all_choices(name: str, parts: bool) -> None:
    vec = vec_of(lambda: MaskedMatch(name, parts=parts))
    size = sum(ActionCodec.of(SPACES[name]).choices)
    assert (vec.observations.input_dim, vec.observations.mask_dim) == (CONTEXTS, size)
    rows = np.zeros((2, CONTEXTS + size), np.float32)
    vec.reset_into(rows)
    for env, row in zip(vec.envs, rows, strict=True):
        env.unwrapped.parts = False
        assert row[CONTEXTS:].tolist() == env.unwrapped.mask().tolist()


def test_a_binary_mask_lists_zero_and_one_for_each_element() -> None:
    env = MaskedMatch("MultiBinary")
    env.number = 0
    # for number 0 the mask forbids the wrong value: (0 + k + 1) % 2
    assert env.mask().tolist() == [1, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("facade", [PPO, A2C])
@pytest.mark.parametrize("name", ["MultiDiscreteGrid", "MultiBinary", "Nested"])
def test_ppo_and_a2c_never_take_a_masked_action_of_several_parts(facade: Any, name: str) -> None:
    """The environment raises on a masked action."""
    made = facade(lambda: MaskedMatch(name, parts=True), n_envs=4, n_steps=16, action_mask="info")
    made.train(256)
    made.evaluate(4)
    env = MaskedMatch(name)
    for seed in range(4):
        obs, info = env.reset(seed=seed)
        for deterministic in (True, False):
            env.step(made.predict(obs, deterministic, info["action_mask"]))
            env.reset(seed=seed)
    masks = np.stack([info["action_mask"]] * 3)
    assert len(made.components.actor.actions.unbatch(made.predict([obs] * 3, True, masks))) == 3


@pytest.mark.parametrize(
    ("name", "spoil", "told"),
    [
        (
            "MultiDiscrete",
            lambda m: m * [1, 1, 1, 0, 0],
            r"allows no value of \[1\], expected at le",
        ),
        ("MultiDiscreteGrid", lambda m: m * 0, r"allows no value of \[0, 0\], expected"),
        (
            "DictMixed",
            lambda m: {"gear": m["gear"] * 0},
            "allows no value of gear, expected at lea",
        ),
        ("DictMixed", lambda m: {}, "has no part gear, expected a mask of each part with choices"),
        (
            "DictMixed",
            lambda m: {**m, "force": [1]},
            "has a part force, which is a Box and has no m",
        ),
        ("DictMixed", lambda m: {**m, "gears": [1]}, r"in: \['gears'\], expected a dict with the keys \['f"),
        (
            "DictMixed",
            lambda m: {"gear": [1, 1]},
            r"in part gear has shape \[2\], expected \[3\] of",
        ),
        ("Nested", lambda m: {**m, "lamp": [0, 0]}, r"allows no value of lamp\[0\], expected"),
        (
            "Nested",
            lambda m: {**m, "lamp": [1, 2]},
            r"in part lamp has 2, expected \[2\] of 0 and 1",
        ),
        (
            "Nested",
            lambda m: {**m, "arm": None},
            r"has no part arm\[0\]\.gear, expected a mask of ea",
        ),
        ("TupleOfChoices", lambda m: m[:1], "in: tuple, expected a tuple of 2 parts"),
        ("TupleOfChoices", lambda m: np.ones(8), r"has shape \[8\], expected \[9\] of 0 and 1"),
    ],
)
def test_the_error_for_a_wrong_mask_names_its_part(name: str, spoil: Any, told: str) -> None:
    vec = vec_of(
        lambda: MaskedMatch(name, parts=name in ("DictMixed", "Nested", "TupleOfChoices"), spoil=spoil)
    )
    rows = np.zeros((2, vec.observations.dim), np.float32)
    with pytest.raises(EnvError, match=rf"the action mask of barred, .*of reset, {told}"):
        vec.reset_into(rows)


def test_masks_that_a_user_gives_are_checked_by_their_parts() -> None:
    made = PPO(lambda: MaskedMatch("DictMixed"), n_steps=16, action_mask="info")
    obs = np.eye(CONTEXTS, dtype=np.float32)
    only = {"gear": np.array([[0, 0, 1]] * CONTEXTS)}
    assert made.predict(obs, True, only)["gear"].tolist() == [1] * CONTEXTS  # the gears are -1, 0 and 1
    assert int(made.predict(obs[0], True, {"gear": [0, 1, 0]})["gear"]) == 0
    with pytest.raises(ShapeError, match=r"^action_masks allows no value of gear, expected at least"):
        made.predict(obs[0], True, [0, 0, 0])
    with pytest.raises(ShapeError, match=r"^action_masks in part gear has shape \[3\], expected \[4, 3\]"):
        made.predict(obs, True, {"gear": [1, 1, 1]})


def test_masks_given_one_after_another_in_a_list_are_a_batch() -> None:
    form = MaskForm(ActionCodec.of(SPACES["DictMixed"]))
    rows = form.to_rows([{"gear": [1, 0, 0]}, {"gear": [0, 0, 1]}], (2,))
    assert rows.tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="has 1 masks, expected 2"):
        form.to_rows([{"gear": [1, 0, 0]}], (2,))


def test_masks_without_choices_and_algorithms_without_factors_are_refused() -> None:
    with pytest.raises(UnsupportedSpaceError, match="masks need actions with choices, but barred has Dict"):
        vec_of(lambda: Match("DictOfBoxes"))
    with pytest.raises(UnsupportedSpaceError, match=r"^dqn needs Discrete actions, .*; use algo=ppo"):
        DQN(lambda: MaskedMatch("MultiDiscrete"), action_mask="info")
