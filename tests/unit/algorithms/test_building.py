"""Tests that rlox refuses unsupported actions and closes environments when building a run fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.bit_flipping import BitFlipping
from helpers.small_ppo import small_ppo
from helpers.states import assert_same_state, pack_state
from helpers.vectors import make_cartpoles

from rlox.algorithms import A2C, DQN, PPO, SAC, TD3, RecurrentPPO
from rlox.algorithms import td3 as td3_module
from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.configs import EnvConfig, PPOConfig, make_run
from rlox.configs.buffers import MAX_CAPACITY
from rlox.envs.make import make_vec
from rlox.errors import ConfigError, EnvError, RloxError, UnsupportedSpaceError
from rlox.rng import Streams
from rlox.sources.replay_sampler import ReplaySampler
from rlox.training.actor import Actor, NativeActor
from rlox.training.components import BuildContext


class Counted(gym.Env[Any, Any]):
    """Counts how many environments were made and closed."""

    action_space = spaces.Box(-1, 1, (1,), np.float32)
    made = closed = 0

    def __init__(self, seen: Any = None, fails: int = 0) -> None:
        self.observation_space = seen or spaces.Box(-1, 1, (3,), np.float32)
        if fails and Counted.made == fails:
            raise OSError("no more of them")
        Counted.made += 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 1.0, False, False, {}

    def close(self) -> None:
        Counted.closed += 1


class Choosing(Counted):
    """The same environment with discrete actions."""

    action_space = spaces.Discrete(2)  # type: ignore[assignment]


class Judging(BitFlipping):
    """An environment with goals that counts too."""

    def __init__(self, n: int = 3) -> None:
        super().__init__(n)
        Counted.made += 1

    def close(self) -> None:
        Counted.closed += 1


def vectors(num_envs: int) -> Any:
    return gym.vector.SyncVectorEnv([Counted] * num_envs)


@pytest.fixture(autouse=True)
def none_yet() -> None:
    Counted.made = Counted.closed = 0


HUGE, WIDE, IMAGE = 2**34, (65_536,) * 8, spaces.Box(0, 255, (8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("kind", "source", "options", "made"),
    [
        (PPO, Counted, {"n_steps": HUGE}, 4),
        (PPO, Counted, {"n_steps": HUGE, "backend": "torch"}, 4),
        (PPO, Counted, {"net_arch": WIDE}, 4),
        (PPO, lambda: Counted(IMAGE), {"normalize_obs": True}, 4),
        (PPO, lambda: Counted(spaces.Text(3)), {}, 4),
        (PPO, lambda: Counted(fails=3), {}, 3),
        (PPO, vectors, {"n_steps": HUGE}, 4),
        (A2C, Counted, {"n_steps": HUGE}, 4),
        (RecurrentPPO, Counted, {"n_steps": HUGE}, 4),
        (SAC, Counted, {"buffer_size": MAX_CAPACITY}, 4),
        (SAC, Counted, {"net_arch": WIDE}, 4),
        (TD3, lambda: Counted(IMAGE), {"normalize_obs": True}, 4),
        (TD3, Choosing, {}, 4),
        (DQN, Counted, {}, 4),
        (DQN, Judging, {"hindsight": "future", "buffer_size": MAX_CAPACITY}, 5),
        (DQN, Choosing, {"hindsight": "future"}, 5),
        (SAC, vectors, {"buffer_size": MAX_CAPACITY}, 4),
    ],
)
def test_environments_are_closed_where_building_a_run_fails(
    kind: Any, source: Any, options: dict[str, Any], made: int
) -> None:
    with pytest.raises((RloxError, OSError)):
        kind(source, n_envs=4, **options)
    assert (Counted.made, Counted.closed) == (made, made)


def test_a_ready_engine_of_the_user_stays_open_where_building_a_run_fails() -> None:
    mine = make_cartpoles(4)
    with pytest.raises(ConfigError):
        PPO(mine, n_envs=4, n_steps=HUGE)
    PPO(mine, n_envs=4, n_steps=16, n_epochs=1, batch_size=16).train(64)


def test_make_vec_reports_worker_environments_with_unknown_spaces_or_errors() -> None:
    config = EnvConfig("Counted", n_envs=2, workers="subprocess")
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        make_vec(config, 0, lambda: Counted(spaces.Text(3)))
    with pytest.raises(EnvError, match="no more of them"):
        make_vec(replace(config, worker_envs=2), 0, lambda: Counted(fails=1))


class OnlyChoices(PPOConfig):
    """The configuration of a plugin that declares support for discrete actions only."""

    action_kinds = ("Discrete",)


def test_on_policy_parts_refuse_actions_of_a_kind_that_the_learner_does_not_take() -> None:
    run = make_run({"algo": {"name": "ppo"}, "env": {"id": "mine", "n_envs": 4}})
    config = replace(run, algo=OnlyChoices())
    tools = BuildContext("cpu", Streams(0), Counted)

    def learner(*arguments: Any) -> Any:
        raise AssertionError("nothing is made for actions of another kind")

    with pytest.raises(UnsupportedSpaceError, match=r"^ppo needs Discrete actions, mine has Box"):
        build_on_policy_run(config, tools, learner)
    assert Counted.closed == 4


class CountingSampler(ReplaySampler):
    """A sampler that counts the draws."""

    draws = 0

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        type(self).draws += 1
        return super().sample(*args, **kwargs)


MADE_ACTORS: list[str] = []


class OwnActor(Actor):
    """An actor that tells that it was made."""

    def __init__(self, *args: Any) -> None:
        MADE_ACTORS.append("torch")
        super().__init__(*args)


class OwnNativeActor(NativeActor):
    """An actor of the native engine that tells that it was made."""

    def __init__(self, *args: Any) -> None:
        MADE_ACTORS.append("native")
        super().__init__(*args)


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_off_policy_runs_learn_from_a_sampler_of_the_researchers_own(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_with_own(*args: Any) -> Any:
        actor = OwnActor if backend == "torch" else OwnNativeActor
        return build_off_policy_run(*args, sampler=CountingSampler, actor=actor)

    small: dict[str, Any] = {"learning_starts": 8, "batch_size": 4, "net_arch": (8,), "backend": backend}
    usual = TD3("Pendulum-v1", **small)
    usual.train(40)
    monkeypatch.setattr(td3_module, "build_off_policy_run", build_with_own)
    monkeypatch.setattr(CountingSampler, "draws", 0)
    MADE_ACTORS.clear()
    own = TD3("Pendulum-v1", **small)
    own.train(40)
    assert CountingSampler.draws > 0
    assert [backend] == MADE_ACTORS
    assert_same_state(pack_state(own.learner.state()), pack_state(usual.learner.state()))


def test_a_builder_of_on_policy_learners_gets_environments_and_encoder() -> None:
    config = make_run({"algo": small_ppo(), "env": {"id": "CartPole-v1", "n_envs": 2}})
    context, got = BuildContext("cpu", Streams(0)), list[Any]()

    def build_learner(policy: Any, env: Any, encoder_spec: Any) -> Any:
        got.append((env.n_envs, env.observations.dim, encoder_spec.features))
        return PPOLearner(policy, config.algo, context.streams)  # type: ignore[arg-type]

    build_on_policy_run(config, context, build_learner)
    assert got == [(2, 4, 4)]
