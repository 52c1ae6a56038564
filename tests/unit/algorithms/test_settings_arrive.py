"""Tests that arguments of a façade reach the networks, the optimizers and the played actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlox.algorithms import A2C, DDPG, DQN, PPO, SAC, TD3, Rainbow, RecurrentPPO

ROLLOUT: dict[str, Any] = {"env_id": "CartPole-v1", "n_steps": 8, "n_envs": 2}
MINIBATCHES = {**ROLLOUT, "batch_size": 8}
REMEMBERING = {**MINIBATCHES, "lstm_hidden_size": 3}
CHOICES, VECTORS = {"env_id": "CartPole-v1"}, {"env_id": "Pendulum-v1"}
BOX = {**MINIBATCHES, **VECTORS}
TWO = [(7, "in"), (5, 7), ("out", 5)]  # of net_arch=(7, 5)
ONE = [(6, "in"), ("out", 6)]  # of critic_net_arch=(6,)


def layers(algorithm: Any, part: str) -> list[Any]:
    """Return the weight shapes `[out, in]` of one part of the policy, with names for the ends."""
    found: list[Any] = [
        tuple(p.shape[-2:])
        for name, p in algorithm.policy.named_parameters()
        if name.startswith(part) and "weight" in name and not name.endswith("_sigma")
    ]
    found[0], found[-1] = (found[0][0], "in"), ("out", found[-1][1])
    return found


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (PPO, MINIBATCHES), (PPO, BOX), (PPO, {**BOX, "use_sde": True}), (A2C, ROLLOUT),
        (RecurrentPPO, REMEMBERING), (RecurrentPPO, {**REMEMBERING, **VECTORS}),
        (SAC, VECTORS), (SAC, {**VECTORS, "use_sde": True}), (SAC, CHOICES),
        (TD3, VECTORS), (DDPG, VECTORS),
    ],
)  # fmt: skip
def test_net_arch_sets_the_widths_of_actor_and_critic(kind: Any, options: Any) -> None:
    both = kind(**options, net_arch=(7, 5))
    assert layers(both, "actor.") == layers(both, "critic.") == TWO
    apart = kind(**options, net_arch=(7, 5), critic_net_arch=(6,))
    assert (layers(apart, "actor."), layers(apart, "critic.")) == (TWO, ONE)


def test_net_arch_sets_the_widths_of_q_networks() -> None:
    assert layers(DQN(**CHOICES, net_arch=(7, 5)), "q.") == TWO
    for algorithm in (
        DQN(**CHOICES, net_arch=(7, 5), dueling=True),
        Rainbow(**CHOICES, net_arch=(7, 5)),
    ):
        assert algorithm.policy.get_submodule("q.shared")(torch.zeros(1, 4)).shape == (1, 7)
        for stream in ("q.value", "q.advantage"):
            assert layers(algorithm, stream) == [(5, "in"), ("out", 5)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [(PPO, MINIBATCHES), (A2C, ROLLOUT), (RecurrentPPO, REMEMBERING), (DQN, CHOICES), (SAC, VECTORS),
     (SAC, CHOICES), (TD3, VECTORS), (DDPG, VECTORS)],
)  # fmt: skip
def test_hidden_layers_have_the_activation_that_they_are_given(kind: Any, options: Any) -> None:
    known = (nn.Tanh, nn.ReLU, nn.ELU, nn.SiLU)
    modules = kind(**options, net_arch=(7, 5), activation="silu").policy.modules()
    assert {type(m) for m in modules if isinstance(m, known)} == {nn.SiLU}


@pytest.mark.parametrize(
    ("kind", "options"), [(PPO, MINIBATCHES), (A2C, ROLLOUT), (RecurrentPPO, REMEMBERING)]
)
def test_orthogonal_layers_are_made_where_they_are_asked_for(kind: Any, options: Any) -> None:
    for wanted in (True, False):
        weight = kind(**options, net_arch=(9, 5), ortho_init=wanted).policy.actor[2].weight
        grams = (weight @ weight.mT).detach()  # rows are orthogonal, of length sqrt 2
        assert torch.allclose(grams, 2 * torch.eye(5), atol=1e-5) == wanted


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        (PPO, BOX, "log_std"), (PPO, {**BOX, "use_sde": True}, "log_std"),
        (A2C, {**ROLLOUT, **VECTORS}, "log_std"),
        (RecurrentPPO, {**REMEMBERING, **VECTORS}, "head.log_std"),
        (SAC, {**VECTORS, "use_sde": True}, "actor.log_std"),
    ],
)  # fmt: skip
def test_log_std_init_sets_the_initial_log_std_of_every_policy(kind: Any, options: Any, name: str) -> None:
    parameters = dict(kind(**options, log_std_init=-1.25).policy.named_parameters())
    assert (parameters[name] == -1.25).all()


def test_n_critics_and_noisy_sigma_reach_the_value_networks() -> None:
    assert SAC(**VECTORS, n_critics=3, net_arch=(4,)).policy.critic.weights[0].shape == (3, 4, 4)
    assert SAC(**CHOICES, n_critics=3, net_arch=(4,)).policy.critic.weights[0].shape == (3, 4, 4)
    noisy = dict(DQN(**CHOICES, noisy=True, noisy_sigma=0.3, net_arch=(4,)).policy.named_parameters())
    sigmas = noisy["q.layers.0.weight_sigma"]
    torch.testing.assert_close(sigmas, torch.full_like(sigmas, 0.3 / 4**0.5))


OFF_POLICY: dict[str, Any] = {
    "batch_size": 8, "buffer_size": 1000, "net_arch": (4,), "learning_starts": 10, "train_freq": 1,
    "backend": "torch",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "env"), [(SAC, VECTORS), (SAC, CHOICES), (TD3, VECTORS), (DDPG, VECTORS)])
def test_every_optimizer_follows_the_learning_rate_schedule(
    kind: Any, env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = kind(**env, **OFF_POLICY, learning_rate="lin_1e-3", seed=1)
    sizes: dict[str, list[float]] = {"actor_optimizer": [], "critic_optimizer": []}
    for name, seen in sizes.items():
        optimizer = getattr(algorithm.learner, name)
        step = optimizer.step

        def noted(optimizer: Any = optimizer, step: Any = step, seen: list[float] = seen) -> None:
            seen.append(optimizer.lr)
            step()

        monkeypatch.setattr(optimizer, "step", noted)
    algorithm.train(40)
    for seen in sizes.values():
        assert seen[0] == pytest.approx(1e-3, rel=0.35)
        assert seen[-1] == pytest.approx(1e-3 / 40, rel=1.5)
        assert sorted(set(seen), reverse=True) == list(dict.fromkeys(seen))
        assert len(set(seen)) > 10


class Askew(gym.Env[Any, Any]):
    """Takes actions of a Box whose middle is not 0."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Box(np.float32([-1, 2]), np.float32([3, 10]))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("kind", "options"),
    [(SAC, {}), (SAC, {"use_sde": True}), (TD3, {}), (DDPG, {})],
)
def test_predict_scales_actions_to_the_bounds_of_the_environment(kind: Any, options: Any) -> None:
    algorithm = kind(Askew, seed=2, net_arch=(16,), buffer_size=100, **options)
    obs = np.random.default_rng(0).uniform(-1, 1, (20, 3)).astype(np.float32)
    with torch.no_grad():
        unit = algorithm.policy.mode(torch.from_numpy(obs)).numpy()
    assert np.abs(unit).max() < 1
    wanted = np.float32([-1, 2]) + (unit + 1) / 2 * np.float32([4, 8])
    np.testing.assert_allclose(algorithm.predict(obs), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [SAC, TD3, DDPG])
def test_a_box_too_wide_for_its_numbers_is_refused(kind: Any) -> None:
    class Endless(Askew):
        action_space = spaces.Box(-3e38, 3e38, (2,), np.float32)

    with pytest.raises(ValueError, match=r"whose width is not finite in float32; wrap it"):
        kind(Endless, buffer_size=100)


def test_rewards_are_normalised_with_the_discount_and_the_window_of_the_run() -> None:
    replayed = SAC(**VECTORS, gamma=0.9, n_step=3, normalize_reward=True, buffer_size=100)
    collected = PPO(**MINIBATCHES, gamma=0.9, normalize_reward=True)
    for source in (replayed.source, collected.source.collector):
        assert source.reward_normalizer.gamma == 0.9
    assert replayed.source.reward_normalizer.limit == pytest.approx(10 * (1 + 0.9 + 0.81))


@pytest.mark.parametrize(
    ("kind", "options", "defaults"),
    [
        # the defaults of Stable-Baselines3 2.9.2
        (SAC, VECTORS, {"learning_rate": 3e-4, "batch_size": 256, "net_arch": (256, 256), "tau": 0.005,
                        "gamma": 0.99, "learning_starts": 100, "train_freq": 1, "gradient_steps": 1,
                        "ent_coef": "auto", "n_critics": 2}),
        (TD3, VECTORS, {"learning_rate": 1e-3, "batch_size": 256, "net_arch": (400, 300), "tau": 0.005,
                        "gamma": 0.99, "learning_starts": 100, "policy_delay": 2, "target_noise": 0.2,
                        "noise_clip": 0.5}),
        (DDPG, VECTORS, {"learning_rate": 1e-3, "batch_size": 256, "net_arch": (400, 300), "tau": 0.005,
                         "gamma": 0.99, "learning_starts": 100}),
        (A2C, ROLLOUT, {"learning_rate": 7e-4, "gamma": 0.99, "gae_lambda": 1.0, "ent_coef": 0.0,
                        "vf_coef": 0.5, "max_grad_norm": 0.5, "use_rms_prop": True,
                        "rms_prop_eps": 1e-5, "net_arch": (64, 64)}),
    ],
)  # fmt: skip
def test_default_hyperparameters_equal_those_of_stable_baselines3(
    kind: Any, options: Any, defaults: Any
) -> None:
    algo = kind(**options).config.algo
    assert {name: getattr(algo, name) for name in defaults} == defaults
