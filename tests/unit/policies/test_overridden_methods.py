"""Tests that overridden methods of a user's policy act and score, and that actions must fit the space."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from helpers.policies import UserMlp
from torch import Tensor, nn
from torch.distributions import Categorical

from rlox.algorithms import A2C, PPO
from rlox.collectors import RolloutCollector
from rlox.errors import ConfigError
from rlox.policies import ContinuousPolicy, DiscretePolicy, FactoredPolicy
from rlox.policies.base import evaluate_for_update
from rlox.policies.factored import FactoredHead

OBS_DIM, N_ACTIONS = 3, 2


class ActionRecorder(gym.Env[Any, Any]):
    """Episodes of ten steps; `actions_taken` holds all received actions."""

    def __init__(self, space: gym.Space[Any], actions_taken: list[Any]) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (OBS_DIM,), np.float32)
        self.action_space, self.actions_taken = space, actions_taken

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(OBS_DIM, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions_taken.append(np.asarray(action).tolist())
        self.t += 1
        return np.full(OBS_DIM, self.t / 10, np.float32), 1.0, False, self.t >= 10, {}


def make_recorder(space: gym.Space[Any] | None = None) -> tuple[Any, list[Any]]:
    actions_taken: list[Any] = []
    return lambda: ActionRecorder(space or gym.spaces.Discrete(N_ACTIONS), actions_taken), actions_taken


class ZeroActionPolicy(DiscretePolicy):
    def get_action_and_logprob(self, obs: Tensor) -> Any:  # type: ignore[override]
        action = torch.zeros(len(obs), dtype=torch.int64)
        return action, Categorical(logits=self.logits(obs)).log_prob(action)


class ZeroSamplePolicy(DiscretePolicy):
    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.zeros(len(obs), dtype=torch.int64)


class ZeroActionValuePolicy(DiscretePolicy):
    def get_action_value(self, obs: Tensor, generator: torch.Generator | None = None) -> Any:
        _, log_prob, value = super().get_action_value(obs, generator)
        return torch.zeros(len(obs), dtype=torch.int64), log_prob, value


class ZeroLogitsPolicy(DiscretePolicy):
    def logits(self, obs: Tensor) -> Tensor:
        return super().logits(obs) * 0 + torch.tensor([50.0, -50.0])


class ZeroActionMixin:
    def get_action_and_logprob(self, obs: Tensor) -> Any:
        return torch.zeros(len(obs), dtype=torch.int64), torch.zeros(len(obs))


class ZeroMixinPolicy(ZeroActionMixin, DiscretePolicy):  # type: ignore[misc]
    pass


def make_patched_policy(obs_dim: int, n_actions: int) -> DiscretePolicy:
    policy = DiscretePolicy(obs_dim, n_actions)
    policy.sample = lambda obs: torch.zeros(len(obs), dtype=torch.int64)  # type: ignore[method-assign,misc,assignment]
    return policy


ZERO_POLICIES = [
    ZeroActionPolicy,
    ZeroSamplePolicy,
    ZeroActionValuePolicy,
    ZeroLogitsPolicy,
    ZeroMixinPolicy,
    make_patched_policy,
]


@pytest.mark.parametrize("make", ZERO_POLICIES)
def test_a_rollout_has_the_actions_of_the_overridden_method(make: Any) -> None:
    env, taken = make_recorder()
    rollout = RolloutCollector(env, n_envs=2, seed=0).collect(make(OBS_DIM, N_ACTIONS), n_steps=16)
    assert taken == [0] * 32
    assert not rollout.actions.any()


@pytest.mark.parametrize("make", ZERO_POLICIES)
def test_sampled_predictions_use_overridden_methods(make: Any) -> None:
    env, _ = make_recorder()
    algorithm = A2C(env, policy=make(OBS_DIM, N_ACTIONS), n_envs=2, n_steps=8)
    told = algorithm.predict(np.zeros((64, OBS_DIM), np.float32), deterministic=False)
    assert told.tolist() == [0] * 64


def test_overridden_logits_are_those_that_act_and_that_score() -> None:
    env, _ = make_recorder()
    rollout = RolloutCollector(env, n_envs=2, seed=0).collect(
        ZeroLogitsPolicy(OBS_DIM, N_ACTIONS), n_steps=16
    )
    assert rollout.log_probs.tolist() == [0.0] * 32  # the choice is certain
    assert ZeroLogitsPolicy(OBS_DIM, N_ACTIONS).mode(torch.zeros(3, OBS_DIM)).tolist() == [0, 0, 0]


class FixedOutputsPolicy(FactoredPolicy):
    def outputs(self, obs: Tensor) -> Tensor:
        return super().outputs(obs) * 0 + torch.tensor([50.0, -50.0, -50.0, 50.0])


def test_overridden_outputs_of_several_choices_act() -> None:
    env, taken = make_recorder(gym.spaces.MultiDiscrete([2, 2]))
    RolloutCollector(env, n_envs=1).collect(FixedOutputsPolicy(OBS_DIM, (2, 2)), n_steps=8)
    assert taken == [[0, 1]] * 8


class ConstantEntropyPolicy(DiscretePolicy):
    """Calls the built-in method and replaces its entropy."""

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        log_prob, entropy = super().get_logprob_and_entropy(obs, actions)
        return log_prob, entropy * 0 + 7.0


@pytest.mark.parametrize("facade", [PPO, A2C])
def test_updates_score_with_the_overridden_method(facade: Any) -> None:
    env, _ = make_recorder()
    told = facade(env, policy=ConstantEntropyPolicy(OBS_DIM, N_ACTIONS), n_envs=2, n_steps=8).train(32)
    assert told["policy/entropy"] == 7.0


@pytest.mark.parametrize("method", ["sampler", "sample", "get_logprob_and_entropy"])
def test_the_native_engine_refuses_a_module_with_a_method_of_its_own(method: str) -> None:
    algorithm = PPO("CartPole-v1", n_envs=2, n_steps=8, backend="native")
    setattr(algorithm.policy, method, getattr(algorithm.policy, method))
    with pytest.raises(ConfigError, match=f"the policy is one with a {method} of its own"):
        algorithm.train(16)


def test_auto_takes_torch_for_a_subclass() -> None:
    assert A2C("CartPole-v1", policy=ZeroActionPolicy(4, 2), n_envs=2, n_steps=8).backend.name == "torch"


def test_a_subclass_sampler_overrides_a_base_class_method() -> None:
    class Sampling(ZeroActionPolicy):
        def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Any:
            return lambda obs, t: torch.ones(len(obs), dtype=torch.int64)

    env, taken = make_recorder()
    RolloutCollector(env, n_envs=2).collect(Sampling(OBS_DIM, N_ACTIONS), n_steps=8)
    assert taken == [1] * 16


def test_a_head_of_ones_own_scores_updates() -> None:
    class Certain(FactoredHead):
        def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
            log_prob, entropy = super().score(outputs, actions)
            return log_prob, entropy * 0 + 7.0

    policy = FactoredPolicy(OBS_DIM, (2, 2))
    policy.head = Certain((2, 2))
    entropy = evaluate_for_update(policy, torch.zeros(2, OBS_DIM), torch.zeros(2, 2, dtype=torch.int64))[1]
    assert entropy.tolist() == [7.0, 7.0]


class OutOfRangePolicy(UserMlp):
    """Takes a third choice, where only two exist, in the second half of an episode."""

    def __init__(self) -> None:
        super().__init__(OBS_DIM, N_ACTIONS + 1)

    def get_action_and_logprob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        action = torch.where(obs[:, 0] > 0.5, N_ACTIONS, torch.randint(N_ACTIONS, (len(obs),)))
        return action, Categorical(logits=self.actor(obs)).log_prob(action)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("facade", [PPO, A2C])
def test_training_refuses_a_choice_beyond_the_space(facade: Any, start: int) -> None:
    env, taken = make_recorder(gym.spaces.Discrete(N_ACTIONS, start=start))
    algorithm = facade(env, policy=OutOfRangePolicy(), n_envs=4, n_steps=64, seed=0)
    with pytest.raises(
        ConfigError,
        match=r"policy OutOfRangePolicy: get_action_and_logprob gave \[4\] of int64 from 2 to 2, "
        r".* from 0 to 1",
    ):
        algorithm.train(1024)
    assert set(taken) == {start, start + 1}


def test_a_collector_refuses_a_choice_beyond_the_space() -> None:
    env, taken = make_recorder()
    with pytest.raises(ConfigError, match=r"policy OutOfRangePolicy: .* whole numbers \[B\] from 0 to 1"):
        RolloutCollector(env, n_envs=4).collect(OutOfRangePolicy(), n_steps=256)
    assert set(taken) == {0, 1}


def test_an_evaluation_refuses_a_choice_beyond_the_space() -> None:
    class Best(UserMlp):
        def mode(self, obs: Tensor) -> Tensor:
            return torch.full((len(obs),), 1 + int(obs.max() > 0.5))

    env, taken = make_recorder()
    algorithm = A2C(env, policy=Best(OBS_DIM, N_ACTIONS), n_envs=2, n_steps=8)
    with pytest.raises(ConfigError, match=r"policy Best: mode gave \[1\] of int64 from 2 to 2"):
        algorithm.evaluate(1)
    assert set(taken) == {1}


@pytest.mark.parametrize(
    ("policy", "space", "told"),
    [
        (DiscretePolicy(OBS_DIM, 3), gym.spaces.Discrete(2), "one of 3 choices, .* from 0 to 1"),
        (
            ContinuousPolicy(OBS_DIM, 1),
            gym.spaces.Box(-1, 1, (2,)),
            r"1 numbers, .* float \[B, 2\]",
        ),
        (
            FactoredPolicy(OBS_DIM, (2, 3)),
            gym.spaces.MultiDiscrete([2, 2]),
            r"among \[2, 3\] and 0 numbers, .* of \[2, 2\], whole",
        ),
    ],
)
def test_a_built_in_policy_of_other_actions_is_refused_at_once(policy: Any, space: Any, told: str) -> None:
    env, taken = make_recorder(space)
    with pytest.raises(ConfigError, match=f"its action is .*{told}"):
        RolloutCollector(env, n_envs=2).collect(policy, n_steps=2)
    with pytest.raises(ConfigError, match=f"its action is .*{told}"):
        PPO(env, policy=policy)
    assert not taken


def test_a_last_layer_with_other_logits_than_choices_is_refused() -> None:
    policy = DiscretePolicy(OBS_DIM, N_ACTIONS)
    policy.actor[-1] = nn.Linear(64, 3)
    with pytest.raises(ConfigError, match=r"logits gave \[2, 3\], expected \[B, 2\], one per choice"):
        PPO(make_recorder()[0], policy=policy)
