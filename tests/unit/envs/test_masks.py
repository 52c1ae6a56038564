"""Tests action masks: their sources, their values at the end of an episode, and which are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.envs import AlwaysTruncates, MixedBounds
from helpers.masked_envs import Masked, RolloutRecorder, make_masked, open_doors
from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.configs import EnvConfig, make_run
from rlox.configs.advice import check_new_run
from rlox.envs.base import VectorEnv
from rlox.envs.make import make_vec, wrapped_factory
from rlox.envs.normalize import observation_normalizer
from rlox.errors import ConfigError, EnvError, UnsupportedSpaceError

Make = Callable[[], gym.Env[Any, Any]]


def make_vec_env(make: Make, source: str, n_envs: int = 2, **config: Any) -> VectorEnv:
    settings = EnvConfig(id="doors", n_envs=n_envs, action_mask=source, **config)
    return make_vec(settings, 7, make)


def options(source: str, **kwargs: Any) -> Make:
    return lambda: make_masked(source, **kwargs)


@pytest.mark.parametrize(
    ("source", "workers"),
    [("info", "sync"), ("method", "sync"), ("observation", "sync"), ("observation", "subprocess")],
)
def test_every_row_has_the_mask_of_its_own_state_also_after_a_reset_and_at_a_time_limit(
    source: str, workers: str
) -> None:
    vec = make_vec_env(options(source), source, workers=workers)
    try:
        played = RolloutRecorder(vec, 40)
    finally:
        vec.close()
    assert (vec.observations.dim, vec.observations.input_dim, vec.observations.mask_dim) == (
        12,
        6,
        6,
    )
    for rows in played.rows:  # after a reset the row belongs to the new episode
        for row in rows:
            assert row[6:].tolist() == open_doors(row[:6])
    kinds, others = set(), 0
    for t, finals in played.finals:
        terminated, truncated = played.ends[t]
        for env, last in zip(finals.envs, finals.obs, strict=True):
            kinds.add((bool(terminated[env]), bool(truncated[env])))
            # a termination has no next action: nothing reads its mask
            assert last[6:].tolist() == ([1.0] * 6 if terminated[env] else open_doors(last[:6]))
            after = played.rows[t + 1][env, 6:].tolist()
            others += bool(truncated[env]) and last[6:].tolist() != after
    assert others  # the final mask is not that of the reset
    assert kinds == {(True, False), (False, True)}


def test_all_sources_and_workers_give_the_same_rows() -> None:
    found = []
    for source, workers in (("info", "sync"), ("method", "subprocess"), ("observation", "sync")):
        vec = make_vec_env(options(source), source, n_envs=3, workers=workers)
        found.append(np.stack(RolloutRecorder(vec, 25).rows))
        vec.close()
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_the_policy_input_excludes_a_mask_in_the_observation() -> None:
    vec = make_vec_env(options("observation"), "observation")
    assert list(vec.observation_space["observation"].spaces) == ["observation"]  # type: ignore[index]
    assert vec.observations.input_dim == make_vec_env(options("info"), "info").observations.input_dim


def test_masks_work_through_wrappers_and_with_a_shifted_discrete_start() -> None:
    make = lambda: gym.wrappers.TimeLimit(make_masked("method", start=5), 100)  # noqa: E731
    vec = make_vec_env(make, "method")
    assert vec.resume_grade == "exact"
    for rows in RolloutRecorder(vec, 20).rows:
        assert [row[6:].tolist() for row in rows] == [open_doors(row[:6]) for row in rows]


def test_action_mask_key_names_the_info_entry_of_the_mask() -> None:
    class Renamed(Masked):
        def _info(self) -> dict[str, Any]:
            return {"legal": super()._info()["action_mask"]}

    vec = make_vec_env(Renamed, "info", action_mask_key="legal")
    assert RolloutRecorder(vec, 3).rows[0][0, 6:].sum() == 2


def test_a_restored_vector_continues_with_the_same_masks() -> None:
    vec, again = (make_vec_env(options("method"), "method") for _ in range(2))
    rows, rewards, ended = np.zeros((2, 12), np.float32), np.zeros(2), np.zeros((2, 2), bool)
    vec.reset_into(rows)
    again.reset_into(np.zeros_like(rows))
    for _ in range(4):
        vec.step_into(rows[:, 6:].argmax(1), rows, rewards, *ended)
    again.restore(vec.state())
    other = rows.copy()
    for _ in range(20):
        vec.step_into(rows[:, 6:].argmax(1), rows, rewards, *ended)
        again.step_into(other[:, 6:].argmax(1), other, rewards, *ended)
        assert np.array_equal(rows, other)


def test_observation_normalization_leaves_action_masks_unchanged() -> None:
    codec = make_vec_env(options("info"), "info").observations
    normalizer = observation_normalizer(codec)
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, (50, 12)).astype(np.float32)
    rows[:, 6:] = rng.random((50, 6)) < 0.5
    masks = rows[:, 6:].copy()
    normalizer.update(rows)
    normalizer.apply(rows)
    assert np.array_equal(rows[:, 6:], masks)
    np.testing.assert_allclose(rows[:, :6].mean(0), 0, atol=1e-3)
    assert normalizer.state()["mean"].shape == (6,)


class FixedMask(Masked):
    """Gives `first_mask` for the first state of an episode and `mask` for all others."""

    def __init__(self, mask: Any, first_mask: Any = (1, 1, 1, 1, 1, 1)) -> None:
        super().__init__()
        self.mask, self.first_mask = mask, first_mask

    def _info(self) -> dict[str, Any]:
        mask = self.mask if self.t else self.first_mask
        return {"other": 1} if mask is None else {"action_mask": mask}

    def open(self) -> NDArray[np.int8]:
        return np.ones(6, np.int8)


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        (None, "the info of step has 'other', expected 'action_mask'; set env.action_mask_key"),
        ([0] * 6, "'action_mask' in the info of step, allows no action"),
        ([1] * 5, r"has shape [5], expected [6] of 0 and 1"),
        ([[1] * 6], r"has shape [1, 6], expected [6]"),
        ([1, 0, 2, 0, 0, 0], "has 2, expected [6] of 0 and 1"),
        ([1, 0, 0.5, 0, 0, 0], "has 0.5, expected"),
        ([1, 0, np.nan, 0, 0, 0], "has nan, expected"),
        (["a"] * 6, "has dtype <U1, expected"),
        ([1, [1, 0], 0], "has lists of unequal lengths, expected"),
        (np.ma.array([1] * 6, mask=[1, 0, 0, 0, 0, 0]), "is a masked array: some of it is masked"),
        ([1, 0, np.ma.masked, 0, 0, 0], "is a masked array: some of it is masked"),
    ],
)
def test_an_invalid_mask_is_an_error_that_names_the_environment(mask: Any, told: str) -> None:
    vec = make_vec_env(lambda: FixedMask(mask), "info")
    rows, rewards, ended = np.zeros((2, 12), np.float32), np.zeros(2), np.zeros((2, 2), bool)
    vec.reset_into(rows)
    with pytest.raises(EnvError, match=re.escape(told)) as found:
        vec.step_into(np.zeros(2, np.int64), rows, rewards, *ended)
    assert str(found.value).startswith("doors (copy 0) raised EnvError in step: ")
    with pytest.raises(EnvError, match=r"in reset: .*doors"):
        make_vec_env(lambda: FixedMask([1] * 6, mask), "info").reset_into(rows)


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32, np.int64])
def test_masks_may_be_of_any_kind_of_number(kind: Any) -> None:
    vec = make_vec_env(lambda: FixedMask([1] * 6, np.array([0, 1, 0, 0, 1, 0], kind)), "info")
    rows = np.zeros((2, 12), np.float32)
    vec.reset_into(rows)
    assert rows[:, 6:].tolist() == [[0, 1, 0, 0, 1, 0]] * 2


def test_a_subprocess_reports_a_state_without_an_allowed_action() -> None:
    vec = make_vec_env(lambda: FixedMask([0] * 6), "info", workers="subprocess", max_restarts=0)
    rows, rewards, ended = np.zeros((2, 12), np.float32), np.zeros(2), np.zeros((2, 2), bool)
    vec.reset_into(rows)
    with pytest.raises(EnvError, match=r"the action mask of doors, .*, allows no action"):
        vec.step_into(np.zeros(2, np.int64), rows, rewards, *ended)


def test_environments_without_masks_are_refused_before_they_step() -> None:
    with pytest.raises(ConfigError, match=r"doors has no method action_masks\(\)"):
        make_vec_env(options("info"), "method")
    with pytest.raises(UnsupportedSpaceError, match="doors has no part 'action_mask'"):
        make_vec_env(options("info"), "observation")
    with pytest.raises(UnsupportedSpaceError, match="masks need actions with choices, but doors has Box"):
        make_vec_env(MixedBounds, "info")
    with pytest.raises(EnvError, match="doors gives no action mask: the info of reset has nothing"):
        make_vec_env(AlwaysTruncates, "info").reset_into(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_environments_in_rust_have_no_masks(backend: str) -> None:
    config = EnvConfig(id="CartPole-v1", action_mask="info", backend=backend)
    with pytest.raises(ConfigError, match=r"CartPole-v1 runs in Rust, where .* no masks"):
        make_vec(config, 0)
    assert wrapped_factory(EnvConfig(id="CartPole-v1"))().observation_space.shape == (4,)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"env": {"action_mask": "infos"}}, "env.action_mask=infos: expected one of none, info"),
        ({"env": {"action_mask_key": "legal"}}, "it has no effect with"),
        ({"env": {"action_mask": "method", "action_mask_key": "x"}}, "it has no effect with"),
        ({"algo": {"name": "bc"}, "env": {"action_mask": "info"}}, "bc does not support action masks"),
        (
            {"algo": {"name": "a2c", "policy": "m:Net"}, "env": {"action_mask": "info"}},
            "a policy of your own does not support action masks",
        ),
        (
            {
                "algo": {"name": "dqn"},
                "buffer": {"name": "uniform", "hindsight": "future"},
                "env": {"action_mask": "info"},
            },
            "buffer.hindsight=future and env.action_mask=info",
        ),
    ],
)
def test_settings_that_do_not_go_with_masks_are_refused(tree: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        make_run({"algo": {"name": "ppo"}, **tree})


REPEAT_OPTIONS = [("action_repeat", 2), ("repeat_action_probability", 0.25)]


@pytest.mark.parametrize(("key", "value"), REPEAT_OPTIONS)
@pytest.mark.parametrize("source", ["info", "method", "observation"])
def test_new_runs_may_not_repeat_actions_that_masks_may_forbid(source: str, key: str, value: float) -> None:
    run = make_run({"algo": {"name": "ppo"}, "env": {"action_mask": source, key: value}})  # a saved run
    told = f"env.action_mask={source} and env.{key}={value}: an action would be taken again in states"
    with pytest.raises(ConfigError, match=re.escape(told)):
        check_new_run(run)


def test_a_facade_refuses_masks_of_repeated_actions() -> None:
    with pytest.raises(ConfigError, match=r"^env\.action_mask=method and env\.action_repeat=2: "):
        PPO(Masked, action_mask="method", action_repeat=2, workers="subprocess")


def test_a_dict_keeps_its_other_parts() -> None:
    class Parts(Masked):
        def __init__(self) -> None:
            super().__init__("observation")
            parts = {**self.observation_space.spaces, "phase": spaces.Discrete(2)}  # type: ignore[attr-defined]
            self.observation_space = spaces.Dict(parts)

        def observe(self) -> Any:
            return {**super().observe(), "phase": self.t % 2}

    vec = make_vec_env(Parts, "observation")
    rows = np.stack(RolloutRecorder(vec, 12).rows)
    assert rows.shape == (13, 2, 8 + 6)
    assert set(rows[..., 6:8].sum(-1).ravel().tolist()) == {1.0}  # one-hot
