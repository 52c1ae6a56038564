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

from rlox.algorithms import DDPG, DQN, PPO, SAC, TQC, Rainbow
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.sac.learner import build_continuous, build_squashed_policy
from rlox.errors import ConfigError, RloxError

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

    def save_state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        self.reset()

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
    "dqn, prioritized, n-step": (
        DQN,
        "CartPole-v1",
        QNet,
        {"prioritized": True, "n_step": 3, "beta_final": 0.4},
    ),
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
    if name != "dqn, masks":  # its environment begins new episodes
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


def test_the_weights_that_a_factory_makes_follow_from_the_seed_of_the_run() -> None:
    first, second, other = build("sac"), build("sac"), build("sac", seed=4)
    assert all(
        torch.equal(a, b) for a, b in zip(weights(first).values(), weights(second).values(), strict=True)
    )
    assert not torch.equal(first.policy.actor.net.module[0].weight, other.policy.actor.net.module[0].weight)


class OneCritic(Nets):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.critic.nets = self.critic.nets[:1]


class Transposed(Nets):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        critics = self.critic

        class Turned(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.critics = critics

            def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
                out: Tensor = self.critics(obs, actions).T
                return out

        self.critic = Turned()


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


class Doubled(QNet):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.double()

    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs.double())


class Unlisted(QNet):
    """Its layers that compute are in a list, so torch does not know them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.layers = [nn.Linear(4, 2)]

    def forward(self, obs: Tensor) -> Tensor:
        out: Tensor = self.layers[0](obs)
        return out


class Tied(QNet):
    """Two layers have their weights in common."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, obs: Tensor) -> Tensor:
        out: Tensor = self.head(self.second(torch.tanh(self.first(torch.tanh(self.body(obs))))))
        return out


def weight_norm(observation_space: Any, action_space: Any) -> nn.Module:
    net = QNet(observation_space, action_space)
    with pytest.warns(FutureWarning, match="deprecated"):
        net.body = nn.utils.weight_norm(net.body)
    return net


class Narrow(QNet):
    def forward(self, obs: Tensor) -> Tensor:
        return super().forward(obs)[:, :1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("dqn", policy=Narrow), r"policy Narrow gave \[3, 1\] .* expected \[3, 2\]"),
        (lambda: build("dqn", policy=Frozen), "depend on none of its trainable parameters"),
        (lambda: build("dqn", policy=lambda a, b: nn.Linear(7, 2)), "policy Linear fails on observations"),
        (lambda: build("dqn", policy=lambda a, b: 3), "gave a int, expected a torch.nn.Module"),
        (
            lambda: build("dqn", policy=weight_norm),
            "policy QNet cannot be copied .*use .*parametrizations",
        ),
        (lambda: build("dqn", dueling=True), "dueling=true and algo.policy"),
        (lambda: build("dqn", noisy=True), "noisy=true and algo.policy"),
        (
            lambda: build("dqn", backend="native"),
            "does not implement algo.policy .it is <QNet>",
        ),
        (
            lambda: build("sac, Discrete", policy=QNet),
            "has the modules body, head, expected actor and critic",
        ),
        (lambda: build("dqn", policy=Doubled), "of torch.float64 for .* expected .* of torch.float32"),
        (lambda: build("dqn", policy=Unlisted), "depend on none of its trainable parameters"),
        (lambda: build("sac", policy=OneCritic), r"gave \[1, 3\] .* expected \[2, 3\].*n_critics=2"),
        (lambda: build("sac", policy=Transposed), r"gave \[3, 2\] .* expected \[2, 3\]"),
        (lambda: build("sac", policy=SharedBody), "parameters in common"),
        (lambda: build("sac", policy=Stray), "extra.weight belongs neither to actor nor to critic"),
        (lambda: build("sac", use_sde=True), "use_sde=true and algo.policy"),
        (lambda: Rainbow("CartPole-v1", policy=QNet), "rainbow builds its own network"),
        (lambda: TQC("Pendulum-v1", policy=Nets), "tqc builds its own critics"),
        (lambda: DDPG("Pendulum-v1", policy=Nets), "unknown argument .policy. for ddpg"),
    ],
)
def test_networks_that_do_not_fit_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(RloxError, match=message):
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


class Normed(QNet):
    """Has the running moments of batch normalisation, dropout, a constant and a frozen layer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.register_buffer("shift", torch.randn(8))

    def forward(self, obs: Tensor) -> Tensor:
        hidden = self.drop(self.norm(self.body(obs)))
        out: Tensor = self.head(self.frozen(torch.relu(hidden)) + self.shift)
        return out


class NormedNets(Nets):
    """Critics of which each has batch normalisation."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        for net in self.critic.nets:
            net[1] = nn.Sequential(nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))


NORMED = {"dqn": Normed, "sac": NormedNets}


@pytest.mark.parametrize("name", NORMED)
def test_moments_dropout_and_frozen_layers_continue_exactly_whatever_torch_drew_before(
    name: str, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    whole = build(name, policy=NORMED[name])
    whole.train(total_timesteps=128)
    torch.manual_seed(2)
    half = build(name, policy=NORMED[name])
    half.train(total_timesteps=64)
    half.save(tmp_path / "half")
    torch.manual_seed(3)
    resumed = CASES[name][0].from_checkpoint(tmp_path / "half", policy=NORMED[name])
    resumed.train(total_timesteps=128)
    expected, found = weights(whole), weights(resumed)
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    targets = [t.module.state_dict() for t in (whole.learner._targets[0], resumed.learner._targets[0])]
    assert all(torch.equal(targets[0][key], targets[1][key]) for key in targets[0])


def test_the_target_shares_constants_with_the_online_network_and_is_in_evaluation_mode(
    tmp_path: Path,
) -> None:
    first = build("dqn", policy=Normed)
    first.train(total_timesteps=64)
    first.save(tmp_path / "first")
    dqn = build("dqn", policy=Normed, seed=9, init_from=str(tmp_path / "first"))
    online, target = dqn.policy.q.module, dqn.learner.target.q.module
    assert torch.equal(online.shift, first.policy.q.module.shift)
    for key, value in online.state_dict().items():
        assert torch.equal(value, target.state_dict()[key]), key
    assert not target.training
    assert target.norm.running_mean is online.norm.running_mean


def test_weights_that_layers_have_in_common_are_the_targets_own(tmp_path: Path) -> None:
    dqn = build("dqn", policy=Tied)
    online, target = dqn.policy.q.module, dqn.learner.target.q.module
    before = target.first.weight.clone()
    dqn.train(total_timesteps=64)
    assert torch.equal(target.first.weight, before)
    assert not torch.equal(online.first.weight, before)
    assert target.second.weight is target.first.weight
    assert online.second.weight is online.first.weight
    dqn.save(tmp_path / "half")
    resumed = DQN.from_checkpoint(tmp_path / "half", policy=Tied)
    for algorithm in (dqn, resumed):
        algorithm.train(total_timesteps=96)
    assert all(torch.equal(weights(dqn)[name], weights(resumed)[name]) for name in weights(dqn))


def test_the_check_of_a_module_leaves_its_moments_and_torchs_generator_alone() -> None:
    env = gym.make("CartPole-v1")
    net = Normed(env.observation_space, env.action_space)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    state = torch.get_rng_state()
    DQN("CartPole-v1", policy=net, **REPLAY)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_a_builder_of_networks_and_networks_of_the_user_exclude_each_other() -> None:
    class Quantiles(SAC):
        @staticmethod
        def make(config: Any, context: Any) -> Any:
            def build_learner(env: Any, spec: Any, _: Any) -> Any:
                actions = env.actions.unit_codec(config.env.id, "sac")
                return build_continuous(config, context, env, spec, actions, build_squashed_policy)

            return build_off_policy_run(config, context, build_learner)

    Quantiles("Pendulum-v1", **REPLAY)
    with pytest.raises(ConfigError, match="sac builds networks of its own"):
        Quantiles("Pendulum-v1", policy=Nets, **REPLAY)


class Dropping(nn.Module):
    """A policy of PPO with dropout."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        self.critic = nn.Linear(4, 1)

    def get_action_and_logprob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        choices = torch.distributions.Categorical(logits=self.actor(obs))
        action = choices.sample()
        return action, choices.log_prob(action)

    def get_value(self, obs: Tensor) -> Tensor:
        value: Tensor = self.critic(obs)[:, 0]
        return value

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        choices = torch.distributions.Categorical(logits=self.actor(obs))
        return choices.log_prob(actions), choices.entropy()


def test_ppo_with_dropout_of_the_user_continues_exactly_whatever_torch_drew_before(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "seed": 3, "policy": Dropping}
    torch.manual_seed(1)
    whole = PPO("CartPole-v1", **settings)
    whole.train(total_timesteps=64)
    torch.manual_seed(2)
    half = PPO("CartPole-v1", **settings)
    half.train(total_timesteps=32)
    half.save(tmp_path / "half")
    resumed = PPO.from_checkpoint(tmp_path / "half", policy=Dropping)
    resumed.train(total_timesteps=64)
    expected, found = weights(whole), weights(resumed)
    assert all(torch.equal(expected[key], found[key]) for key in expected)
