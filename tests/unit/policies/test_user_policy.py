"""Tests that a user's own policy draws from rlox's generators on any device and changes no others."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.factored_actions import SPACES, env_id, require_form
from helpers.observation_probes import EYE
from helpers.policies import UserMlp
from torch import Tensor, nn

import rlox.policies.user_policy
from rlox.algorithms import A2C, DQN, PPO, RecurrentPPO
from rlox.errors import ConfigError
from rlox.policies import DiscretePolicy, UserPolicy
from rlox.rng import seeded_default_generators

OBS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def make_seeded(seed: int) -> UserMlp:
    with seeded_default_generators(seed):
        return UserMlp(4, 2)


def test_sampled_predictions_depend_only_on_the_seed_and_their_count() -> None:
    histories = []
    for foreign in (1, 2):
        algorithm = PPO("CartPole-v1", policy=make_seeded(3), n_envs=2, n_steps=16, seed=5)
        torch.manual_seed(foreign)
        before = torch.get_rng_state()
        histories.append([algorithm.predict(OBS, deterministic=False).tolist() for _ in range(3)])
        assert torch.equal(torch.get_rng_state(), before)
    assert histories[0] == histories[1]
    assert len({tuple(actions) for actions in histories[0]}) == 3


def test_samples_advance_the_generator_that_draws_them() -> None:
    policy, rows = UserPolicy(make_seeded(3)), torch.from_numpy(OBS)
    one, other = (torch.Generator().manual_seed(8) for _ in range(2))
    drawn = [policy.get_action_and_logprob(rows, one)[0] for _ in range(2)]
    assert not torch.equal(*drawn)
    assert all(torch.equal(a, policy.get_action_and_logprob(rows, other)[0]) for a in drawn)


def test_sampling_without_a_generator_uses_torchs_default_generator() -> None:
    policy, module, rows = UserPolicy(make_seeded(3)), make_seeded(3), torch.from_numpy(OBS)
    with seeded_default_generators(4):
        mine = policy.get_action_and_logprob(rows)
    with seeded_default_generators(4):
        assert all(map(torch.equal, mine, module.get_action_and_logprob(rows)))


class AcceleratorPolicy(UserMlp):
    """Claims that its parameters are on the second CUDA device and a buffer on the first."""

    def parameters(self, recurse: bool = True) -> Any:
        return iter([SimpleNamespace(device=torch.device("cuda:1"))])

    def buffers(self, recurse: bool = True) -> Any:
        return iter([SimpleNamespace(device=torch.device("cuda:0"))])


@pytest.mark.parametrize("way", ["sampler", "get_action_and_logprob", "mode"])
def test_drawing_seeds_every_device_of_the_module_and_its_observations(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, open_now, seen = AcceleratorPolicy(4, 2), [], []

    @contextmanager
    def watched(key: int, devices: set[torch.device]) -> Iterator[None]:
        open_now.append(devices)
        yield
        open_now.pop()

    def draw(obs: Tensor) -> tuple[Tensor, Tensor]:
        seen.extend(open_now)
        return torch.zeros(len(obs)), torch.zeros(len(obs))

    monkeypatch.setattr(rlox.policies.user_policy, "seeded_default_generators", watched)
    monkeypatch.setattr(module, "get_action_and_logprob", draw)
    policy, rows = UserPolicy(module), torch.from_numpy(OBS)
    if way == "sampler":
        policy.sampler(2, 50, torch.Generator())(rows, 0)
    elif way == "mode":
        policy.mode(rows)
    else:
        policy.get_action_and_logprob(rows, torch.Generator())
    assert seen == [{torch.device("cpu"), torch.device("cuda:0"), torch.device("cuda:1")}]
    assert not open_now


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_module_on_an_accelerator_trains_to_the_same_weights_and_leaves_its_generator(
    kind: str,
) -> None:
    backend: Any = torch.get_device_module(kind)
    if not backend.is_available():
        pytest.skip(f"no {kind} here")
    results = []
    for foreign in (1, 2):
        algorithm = PPO("CartPole-v1", policy=make_seeded(3), device=kind, n_steps=16, seed=5)
        torch.manual_seed(foreign)
        before = backend.get_rng_state()
        algorithm.train(256)
        drawn = algorithm.predict(OBS, deterministic=False)
        assert torch.equal(backend.get_rng_state(), before)
        results.append((drawn.tolist(), algorithm.policy.module.actor[0].weight.tolist()))
    assert results[0] == results[1]


def test_the_facades_help_names_every_required_policy_method() -> None:
    with pytest.raises(ConfigError) as refused:
        UserPolicy(nn.Linear(2, 2))
    lacks = re.findall(r"\b(?:get_\w+|mode)\b", str(refused.value).partition(" lacks ")[2])
    assert {"get_action_and_logprob", "get_value", "mode"} <= set(lacks)
    for facade in (PPO, A2C):
        shown = " ".join(inspect.getdoc(facade).split())  # type: ignore[union-attr]
        assert [name for name in lacks if not re.search(rf"\b{name}\b", shown)] == []


class TwoPartPolicy(nn.Module):
    """A gear of three and a force, written with torch.distributions."""

    def __init__(self, gears: int = 3) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(4, gears + 1), nn.Linear(4, 1)

    def distributions(self, obs: Tensor) -> tuple[Any, Any]:
        outputs = self.actor(obs)
        gear = torch.distributions.Categorical(logits=outputs[:, :-1])
        return gear, torch.distributions.Normal(outputs[:, -1], 0.5)

    def get_action_and_logprob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        gear, force = self.distributions(obs)
        action = torch.stack([gear.sample().float(), force.sample()], -1)
        return action, self.get_logprob_and_entropy(obs, action)[0]

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        gear, force = self.distributions(obs)
        log_prob = gear.log_prob(actions[:, 0]) + force.log_prob(actions[:, 1])
        return log_prob, gear.entropy() + force.entropy()

    def get_value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)

    def mode(self, obs: Tensor) -> Tensor:
        outputs = self.actor(obs)
        return torch.stack([outputs[:, :-1].argmax(-1).float(), outputs[:, -1]], -1)


def test_a_policy_of_ones_own_may_act_in_several_parts() -> None:
    made = PPO(env_id("DictMixed"), policy=TwoPartPolicy(), n_envs=2, n_steps=16)
    assert "loss/policy" in made.train(64)
    require_form(SPACES["DictMixed"], made.predict(OBS[0]))


@pytest.mark.parametrize(
    ("policy", "space", "told"),
    [
        (
            lambda: TwoPartPolicy(9),
            "DictMixed",
            r"gave \[\[8.0\], .* choices from 0, of \[3\], then 1 num",
        ),
        (
            TwoPartPolicy,
            "MultiDiscrete",
            r"gave \[2, 2\] of float32, .* of \[3, 2\], whole numbers",
        ),
        (
            lambda: UserMlp(4, 2),
            "DictMixed",
            r"gave \[2\] of int64, the environment takes \[B, 2\]: cho",
        ),
    ],
)
def test_a_policy_with_wrong_action_parts_is_refused(policy: Any, space: str, told: str) -> None:
    made = policy()
    torch.nn.init.constant_(made.actor[-1].bias if isinstance(made, UserMlp) else made.actor.bias, 0)
    if isinstance(made, TwoPartPolicy):
        torch.nn.init.constant_(made.actor.bias[-2], 100.0)  # it always takes the last gear
    with pytest.raises(ConfigError, match=f"fails on observations of .*{told}"):
        PPO(env_id(space), policy=made)


class DetachedLogProb(UserMlp):
    """Gives a gradient only to entropy and values."""

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        log_prob, entropy = super().get_logprob_and_entropy(obs, actions)
        return log_prob.detach(), entropy


class NoGradLogProb(UserMlp):
    """Computes log-probabilities and entropies without autograd."""

    @torch.no_grad()
    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        return super().get_logprob_and_entropy(obs, actions)


class HiddenActor(UserMlp):
    """Keeps the actor in a list, where torch does not see its parameters."""

    def __init__(self, obs_dim: int, n_actions: int) -> None:
        super().__init__(obs_dim, n_actions)
        self.actors = [self._modules.pop("actor")]

    @property
    def actor(self) -> Any:
        return self.actors[0]


@pytest.mark.parametrize("facade", [A2C, PPO])
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            DetachedLogProb,
            "the policy's log-probability has no gradient; it must not be .* nor be detached",
        ),
        (NoGradLogProb, r"the policy's log-probability has no gradient; .* under torch\.no_grad"),
        (
            HiddenActor,
            "policy HiddenActor depends on none of its parameters; keep layers as attributes",
        ),
    ],
)
def test_a_policy_whose_actor_would_never_learn_is_refused_at_the_first_update(
    facade: Any, kind: Any, told: str
) -> None:
    algorithm = facade("CartPole-v1", policy=kind(4, 2), n_envs=2, n_steps=8)
    before = [p.clone() for p in algorithm.policy.parameters()]
    with pytest.raises(ConfigError, match=f"nothing can be learned: .*{told}"):
        algorithm.train(16)
    assert all(map(torch.equal, before, algorithm.policy.parameters()))


def test_a_policy_without_a_critic_that_learns_trains_its_actor() -> None:
    class Zero(UserMlp):
        def get_value(self, obs: Tensor) -> Tensor:
            return torch.zeros(len(obs))

    policy = Zero(4, 2)
    before = [p.clone() for p in policy.actor.parameters()]
    A2C("CartPole-v1", policy=policy, n_envs=2, n_steps=8).train(16)
    assert not any(map(torch.equal, before, policy.actor.parameters()))


class NoGradValue(UserMlp):
    """Computes values without autograd."""

    @torch.no_grad()
    def get_value(self, obs: Tensor) -> Tensor:
        return super().get_value(obs)


class DetachedValueSubclass(DiscretePolicy):
    """A subclass of a built-in policy that detaches its values."""

    def get_value(self, obs: Tensor) -> Tensor:
        return super().get_value(obs).detach()


@pytest.mark.parametrize("kind", [NoGradValue, DetachedValueSubclass])
def test_a_critic_that_would_never_learn_is_refused_at_the_first_update(kind: Any) -> None:
    algorithm = A2C("CartPole-v1", policy=kind(4, 2), n_envs=2, n_steps=8)
    with pytest.raises(
        ConfigError,
        match=r"get_value gave values without gradient, so that .*critic\.0\.weight.* would never learn",
    ):
        algorithm.train(16)


def test_values_of_a_frozen_critic_may_have_no_gradient() -> None:
    policy = NoGradValue(4, 2)
    policy.critic.requires_grad_(False)
    before = [p.clone() for p in policy.actor.parameters()]
    A2C("CartPole-v1", policy=policy, n_envs=2, n_steps=8).train(16)
    assert not any(map(torch.equal, before, policy.actor.parameters()))


def test_constant_values_made_from_critic_weights_need_no_gradient() -> None:
    class Constant(UserMlp):
        def get_value(self, obs: Tensor) -> Tensor:
            return self.critic[0].weight.new_zeros(len(obs), device=self.critic[0].bias.device)

    assert "loss/policy" in A2C("CartPole-v1", policy=Constant(4, 2), n_envs=2, n_steps=8).train(16)


def override_method(method: str, function: Any) -> type[nn.Module]:
    """Makes a policy class whose `method` returns the result of `function`."""
    return type("Other", (UserMlp,), {method: lambda self, *given: function(*given)})


@pytest.mark.parametrize(
    ("method", "gives", "told"),
    [
        ("get_value", lambda obs: np.zeros(len(obs)), "a ndarray, expected a torch tensor"),
        ("get_value", lambda obs: [0.0] * len(obs), "a list, expected a torch tensor"),
        ("get_value", lambda obs: torch.zeros(len(obs), 3), r"\[2, 3\], expected a torch tensor"),
        ("get_logprob_and_entropy", lambda obs, a: obs[:, 0], "a Tensor, expected two tensors"),
        (
            "get_logprob_and_entropy",
            lambda obs, a: (obs[:, 0], None),
            "a NoneType, expected a torch tensor",
        ),
        ("get_action_and_logprob", lambda obs: obs[:, 0], "a Tensor, expected two tensors"),
        (
            "get_action_and_logprob",
            lambda obs: (np.zeros(len(obs), np.int64), obs[:, 0]),
            "a ndarray, expected a torch tensor",
        ),
        ("mode", lambda obs: [0] * len(obs), "a list, expected a torch tensor"),
    ],
)
def test_a_result_that_is_no_tensor_is_refused_with_the_method(method: str, gives: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"policy Other fails on .*: {method} gave {told}"):
        PPO("CartPole-v1", policy=override_method(method, gives)(4, 2))


def test_a_policy_made_in_inference_mode_is_refused() -> None:
    with torch.inference_mode():
        policy = UserMlp(4, 2)
    with pytest.raises(ConfigError, match=r"actor\.0\.weight.*: made under torch\.inference_mode"):
        PPO("CartPole-v1", policy=policy)


def test_a_run_that_is_made_in_inference_mode_learns_as_any_other() -> None:
    weights = []
    for mode in (True, False):
        with torch.inference_mode(mode):
            made = PPO("CartPole-v1", n_envs=2, n_steps=8, backend="torch")
        made.train(16)
        weights.append([p.tolist() for p in made.policy.parameters()])
    assert weights[0] == weights[1]


@pytest.mark.parametrize("facade", [PPO, DQN, RecurrentPPO])
def test_networks_of_another_default_dtype_are_refused_by_its_name(facade: Any) -> None:
    options = {} if facade is RecurrentPPO else {"backend": "torch"}
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ConfigError, match=r"get_default_dtype\(\) is torch\.float64, expected"):
            facade("CartPole-v1", **options)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("facade", [PPO, DQN, RecurrentPPO])
def test_networks_on_the_meta_device_are_refused_before_they_are_made(facade: Any) -> None:
    options = {} if facade is RecurrentPPO else {"backend": "torch"}
    torch.set_default_device("meta")
    try:
        with pytest.raises(ConfigError, match=r"get_default_device\(\) is meta, .* expected cpu"):
            facade("CartPole-v1", **options)
    finally:
        torch.set_default_device("cpu")


@pytest.mark.parametrize("facade", [PPO, DQN])
def test_training_under_autocast_or_on_meta_is_refused_before_the_first_step(
    facade: Any,
) -> None:
    options = {"n_envs": 2, "n_steps": 8} if facade is PPO else {"learning_starts": 4}
    algorithm = facade("CartPole-v1", backend="torch", **options)
    told = r"training inside torch\.autocast\('cpu'\), which computes in torch\.bfloat16, expected"
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ConfigError, match=told):
        algorithm.train(16)
    with torch.device("meta"), pytest.raises(ConfigError, match="get_default_device"):
        algorithm.train(16)
    assert algorithm.train(16)["env_steps"] == 16
    native = facade("CartPole-v1", backend="native", **options)
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):  # Rust ignores both
        native.train(16)
        assert native.policy is not None


class ToFloat(nn.Module):
    def forward(self, rows: Tensor) -> Tensor:
        return rows.float()


EYE_ROW_BYTES = 8 * 8 * 3 + 2 * 4  # an image and two floats


def make_policy(observation_space: spaces.Space[Any], action_space: spaces.Discrete) -> UserMlp:
    policy = UserMlp(EYE_ROW_BYTES, int(action_space.n))
    policy.actor.insert(0, ToFloat())
    policy.critic.insert(0, ToFloat())
    return policy


@pytest.mark.parametrize("has_instance", [True, False])
def test_only_networks_of_rlox_describe_how_they_encode_images(has_instance: bool) -> None:
    options: dict[str, Any] = {"n_envs": 1, "n_steps": 8, "backend": "torch"}
    with closing(PPO(EYE, **options)) as algorithm:
        assert algorithm.components.image_descriptions
        env = algorithm.source.collector.env
    policy = make_policy(env.observation_space, env.action_space) if has_instance else make_policy
    with closing(PPO(EYE, policy=policy, **options)) as algorithm:
        assert algorithm.components.image_descriptions == ()
