"""Tests of DQN and SAC with networks of the user (`algo.policy`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.hidden_stakes import HiddenStakes
from helpers.masked_envs import Masked
from helpers.own_networks import Nets, QNet
from torch import Tensor, nn

from rlox.algorithms import DDPG, DQN, SAC, TQC, Rainbow
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.sac.learner import build_continuous
from rlox.errors import ConfigError

REPLAY: dict[str, Any] = {
    "learning_starts": 16,
    "batch_size": 8,
    "buffer_size": 256,
    "seed": 3,
    "device": "cpu",
}


class Pictures(gym.Env[Any, Any]):
    """Shows a white image."""

    observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.full((4, 4, 3), 255, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.full((4, 4, 3), 255, np.uint8), 1.0, True, False, {}


class PictureNet(nn.Module):
    """A Q-network of bytes, which it reads as floats."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.net = nn.Linear(spaces.flatdim(observation_space), int(action_space.n))

    def forward(self, obs: Tensor) -> Tensor:
        assert obs.dtype == torch.uint8
        out: Tensor = self.net(obs.float() / 255)
        return out


CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "dqn": (DQN, "CartPole-v1", QNet, {}),
    "dqn, arguments": (DQN, "CartPole-v1", {"name": "helpers.own_networks:QNet", "hidden": 4}, {}),
    "dqn, quantiles": (DQN, "CartPole-v1", "quantiles", {"distribution": "quantile", "n_quantiles": 5}),
    "dqn, masks": (DQN, lambda: Masked("info"), QNet, {"action_mask": "info"}),
    "dqn, images": (DQN, Pictures, PictureNet, {}),
    "sac": (SAC, "Pendulum-v1", Nets, {}),
    "sac, Discrete": (SAC, "CartPole-v1", Nets, {}),
}


class QuantileNet(QNet):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__(observation_space, action_space)
        self.head = nn.Linear(8, 5 * int(action_space.n))


def build(name: str, **changes: Any) -> Any:
    facade, env, policy, settings = CASES[name]
    policy = QuantileNet if policy == "quantiles" else policy
    return facade(env, **{"policy": policy} | REPLAY | settings | changes)


def weights(algorithm: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in algorithm.policy.state_dict().items()}


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_of_the_users_networks_trains_and_a_resumed_run_is_exact(
    name: str, tmp_path: Path
) -> None:
    algorithm, whole = build(name), build(name)
    before = weights(algorithm)
    algorithm.train(total_timesteps=64)
    trained = dict(algorithm.policy.named_parameters())
    own = [key for key in trained if "module." in key]
    assert own
    assert all(not torch.equal(before[key], trained[key]) for key in own)
    assert len(algorithm.evaluate(3).returns) == 3
    algorithm.save(tmp_path / "saved")
    facade, env, *_ = CASES[name]
    given = {} if isinstance(env, str) else {"env": env}
    resumed = facade.from_checkpoint(
        tmp_path / "saved", trust=True, **given, policy=build(name).config.algo.policy
    )
    resumed.train(total_timesteps=128)
    whole.train(total_timesteps=128)
    expected, found = weights(whole), weights(resumed)
    if isinstance(env, str):  # other environments begin new episodes
        assert all(torch.equal(expected[key], found[key]) for key in expected)


def test_a_module_is_taken_as_it_is_and_is_not_changed_by_the_initial_weights() -> None:
    torch.manual_seed(1)
    env = gym.make("CartPole-v1")
    net = QNet(env.observation_space, env.action_space)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    dqn = DQN("CartPole-v1", policy=net, **REPLAY)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    obs = np.array([0.1, -0.2, 0.3, -0.4], np.float32)
    values = net(torch.from_numpy(obs.copy())[None])
    assert dqn.predict(obs) == int(values.argmax())
    dqn.train(total_timesteps=64)
    assert not torch.equal(net.head.weight, before["head.weight"])


def test_a_factorys_weights_follow_from_the_seed_of_the_run() -> None:
    first, second, other = build("sac"), build("sac"), build("sac", seed=4)
    assert all(
        torch.equal(a, b) for a, b in zip(weights(first).values(), weights(second).values(), strict=True)
    )
    assert not torch.equal(first.policy.actor.net.module[0].weight, other.policy.actor.net.module[0].weight)


class OneCritic(Nets):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.critic.nets = self.critic.nets[:1]


class SharedBody(Nets):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.critic.body = self.actor[0]


class Stray(Nets):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.extra = nn.Linear(2, 2)


class Frozen(QNet):
    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs).detach()


class Narrow(QNet):
    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs)[:, :1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("dqn", policy=Narrow), r"policy Narrow gave \[2, 1\] .* expected \[2, 2\]"),
        (lambda: build("dqn", policy=Frozen), "without a gradient"),
        (lambda: build("dqn", policy=lambda a, b: nn.Linear(7, 2)), "policy Linear fails on observations"),
        (lambda: build("dqn", policy=lambda a, b: 3), "gave a int, expected a torch.nn.Module"),
        (lambda: build("dqn", dueling=True), "dueling=true and algo.policy"),
        (lambda: build("dqn", noisy=True), "noisy=true and algo.policy"),
        (
            lambda: build("dqn", backend="native"),
            "does not implement algo.policy .it is <QNet>",
        ),
        (lambda: build("sac", policy=QNet), "expected actor and critic|no attribute 'n'"),
        (lambda: build("sac", policy=OneCritic), r"gave \[1, 2\] .* expected \[2, 2\].*n_critics=2"),
        (lambda: build("sac", policy=SharedBody), "parameters in common"),
        (lambda: build("sac", policy=Stray), "extra.weight belongs neither to actor nor to critic"),
        (lambda: build("sac", use_sde=True), "use_sde=true and algo.policy"),
        (lambda: Rainbow("CartPole-v1", policy=QNet), "rainbow builds its own network"),
        (lambda: TQC("Pendulum-v1", policy=Nets), "tqc builds its own critics"),
        (lambda: DDPG("Pendulum-v1", policy=Nets), "policy"),
    ],
)
def test_networks_that_do_not_fit_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        make()


def test_settings_of_the_networks_that_are_not_built_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="algo.net_arch: no effect with a policy of your own"):
        build("dqn", net_arch=(16,))


class Deaf(SAC):
    """An algorithm of a plugin that builds its own networks, but accepts `policy` and `critic_obs`."""

    @staticmethod
    def make(config: Any, context: Any) -> Any:
        def build_learner(env: Any, spec: Any, _: Any) -> Any:
            changed = replace(config, algo=replace(config.algo, policy=None))
            actions = env.actions.unit_codec(config.env.id, "deaf")
            return build_continuous(changed, context, env, EncoderSpec(spec.features), actions)

        return build_off_policy_run(config, context, build_learner)


@pytest.mark.parametrize(
    ("env", "given", "message"),
    [
        ("Pendulum-v1", {"policy": Nets}, "algo.policy: sac builds networks of its own"),
        (
            lambda: HiddenStakes(box=True),
            {"critic_obs": ("stakes",)},
            "env.critic_obs: sac builds networks of its own",
        ),
    ],
)
def test_a_plugin_that_ignores_the_keys_of_its_networks_is_refused(
    env: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Deaf(env, **given)
