"""Tests of critics that see parts of an observation that their actor does not see (`env.critic_obs`)."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from helpers.goal_env import GoalLine
from helpers.hidden_stakes import HiddenStakes
from torch import Tensor

from rlox.algorithms import A2C, DDPG, DQN, PPO, PQN, SAC, TD3, TQC, RecurrentPPO
from rlox.configs import EnvConfig
from rlox.envs.critic_obs import InfoParts, with_critic_parts
from rlox.envs.masks import MaskActions
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, EnvError, ShapeError

ROLLOUT: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "net_arch": (8,)}
PPO_LIKE = {**ROLLOUT, "n_epochs": 2, "batch_size": 16}
REPLAY: dict[str, Any] = {"learning_starts": 16, "batch_size": 8, "buffer_size": 256, "net_arch": (8,)}
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "ppo": (PPO, PPO_LIKE, {}),
    "ppo, info": (PPO, {**PPO_LIKE, "critic_obs": ("info.stakes",)}, {"in_info": True}),
    "ppo, Box": (PPO, PPO_LIKE, {"box": True}),
    "ppo, gSDE": (PPO, {**PPO_LIKE, "use_sde": True}, {"box": True}),
    "ppo, masks": (PPO, {**PPO_LIKE, "action_mask": "observation"}, {"masked": True}),
    "ppo, one encoder": (PPO, PPO_LIKE, {"image": True}),
    "ppo, two encoders": (PPO, {**PPO_LIKE, "share_encoder": False}, {"image": True}),
    "a2c": (A2C, ROLLOUT, {}),
    "recurrent_ppo": (RecurrentPPO, {**PPO_LIKE, "lstm_hidden_size": 8}, {}),
    "recurrent_ppo, critic without layers": (
        RecurrentPPO,
        {**PPO_LIKE, "lstm_hidden_size": 8, "enable_critic_lstm": False},
        {},
    ),
    "recurrent_ppo, images": (
        RecurrentPPO,
        {**PPO_LIKE, "lstm_hidden_size": 8, "share_encoder": False},
        {"image": True},
    ),
    "sac": (SAC, REPLAY, {"box": True}),
    "sac, Discrete": (SAC, REPLAY, {}),
    "sac, gSDE": (SAC, {**REPLAY, "use_sde": True}, {"box": True}),
    "sac, images": (SAC, REPLAY, {"box": True, "image": True}),
    "tqc": (TQC, {**REPLAY, "n_quantiles": 5}, {"box": True}),
    "td3": (TD3, REPLAY, {"box": True}),
    "td3, images": (TD3, REPLAY, {"box": True, "image": True}),
    "ddpg": (DDPG, REPLAY, {"box": True}),
}


class Pair(gym.Env[Any, Any]):
    """Has a Tuple of observations."""

    observation_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))
    action_space = spaces.Discrete(2)


class TwoStates(HiddenStakes):
    """Has one more part, of the size of `stakes`."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {**self.observation_space, "state": self.observation_space["stakes"]}
        )

    def _draw(self) -> tuple[Any, dict[str, Any]]:
        obs, info = super()._draw()
        return {**obs, "state": obs["stakes"] + 1}, info


def build(name: str, **changes: Any) -> Any:
    facade, settings, env = CASES[name]
    return facade(
        partial(HiddenStakes, **env), seed=3, device="cpu", **{"critic_obs": ("stakes",)} | settings | changes
    )


def stakes_part(algorithm: Any) -> str:
    """Return the name of the part that the critic sees."""
    (name,) = algorithm.config.env.critic_obs
    return str(name)


def rows_of(algorithm: Any, stakes: float, signal: int = 1) -> Tensor:
    """Return four encoded observations of a signal with these stakes."""
    codec = algorithm.components.actor.observations
    image = codec.images[0] if codec.images else None
    look: Any = np.eye(2, dtype=np.float32)[signal]
    if image is not None:
        look = np.full(image.shape, 255 * signal, np.uint8)
    obs: dict[str, Any] = {"signal": look, stakes_part(algorithm): np.array(stakes, np.float32)}
    if codec.mask_dim:
        obs["action_mask"] = np.ones(2, np.int8)
    return torch.from_numpy(algorithm.components.actor.encode_obs([obs] * 4)[0])


@torch.no_grad()
def values_of(algorithm: Any, rows: Tensor) -> Tensor:
    policy = algorithm.policy
    if isinstance(algorithm, RecurrentPPO):
        return policy.get_value(rows, torch.zeros(len(rows), policy.state_size))
    if isinstance(algorithm, PPO | A2C):
        return policy.get_value(rows)
    if isinstance(algorithm, SAC) and algorithm.components.actor.actions.is_discrete:
        return policy.critic(rows)
    actions = torch.zeros(len(rows), 1)
    critic = policy.critic
    if hasattr(critic, "with_actions"):
        return critic.with_actions(rows, actions)
    return critic(torch.cat([rows, actions], -1))


def predicted(algorithm: Any, stakes: float | None, signal: int = 1) -> Any:
    """Return the best action and a sampled one for an observation, with the part `stakes` or without it."""
    obs: dict[str, Any] = {"signal": np.eye(2, dtype=np.float32)[signal]}
    if image := algorithm.components.actor.observations.images:
        obs["signal"] = np.full(image[0].shape, 255 * signal, np.uint8)
    if stakes is not None:
        obs[stakes_part(algorithm)] = np.array(stakes, np.float32)
    if algorithm.components.actor.observations.mask_dim:
        obs["action_mask"] = np.ones(2, np.int8)
    result = algorithm.predict(obs)
    return result[0] if isinstance(algorithm, RecurrentPPO) else result


@pytest.mark.parametrize("name", CASES)
def test_the_critic_sees_the_part_and_the_actor_does_not(name: str) -> None:
    algorithm = build(name)
    algorithm.train(total_timesteps=64)
    low, high = rows_of(algorithm, -3.0), rows_of(algorithm, 3.0)
    assert not torch.equal(values_of(algorithm, low), values_of(algorithm, high))
    best = [predicted(algorithm, stakes) for stakes in (-3.0, 0.0, 3.0, None)]
    assert all(np.array_equal(best[0], other) for other in best[1:])
    # the weights of the actor do not read it either: outputs equal bit for bit, not only the best action
    actor = algorithm.components.actor
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    with actor.inference_mode():
        one, other = (
            actor.step(rows.numpy(), actor.initial_state(4), generator)[0]
            for rows, generator in zip((low, high), generators, strict=True)
        )
    assert np.array_equal(one, other)
    evaluation = algorithm.evaluate(8)
    assert len(evaluation.returns) == 8


@pytest.mark.parametrize("name", ["ppo", "ppo, info", "recurrent_ppo", "sac, images", "td3"])
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    facade, _, env = CASES[name]
    whole, half = build(name), build(name)
    whole.train(total_timesteps=128)
    half.train(total_timesteps=64)
    half.save(tmp_path / "half")
    resumed = facade.from_checkpoint(tmp_path / "half", env=partial(HiddenStakes, **env))
    resumed.train(total_timesteps=128)
    states = [dict(algorithm.policy.state_dict()) for algorithm in (whole, resumed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_task_is_learned_only_if_the_critic_sees_what_decides_the_rewards() -> None:
    settings: dict[str, Any] = {
        "n_envs": 8, "n_steps": 128, "n_epochs": 10, "batch_size": 256, "learning_rate": 2e-2,
        "net_arch": (32,), "vf_coef": 1.0, "max_grad_norm": 100.0, "backend": "torch",
    }  # fmt: skip

    def certainty(seed: int, **env_settings: Any) -> float:
        """Return the lower probability of the right action, over both signals."""
        ppo = PPO(HiddenStakes, seed=seed, **settings, **env_settings)
        ppo.train(total_timesteps=12 * 8 * 128)
        rows = torch.eye(2, ppo.components.actor.observations.dim)
        with torch.no_grad():
            return float(torch.softmax(ppo.policy.logits(rows), -1).diagonal().min())

    seen = [certainty(seed, critic_obs=("stakes",)) for seed in range(3)]
    unseen = [certainty(seed, obs_keys=("signal",)) for seed in range(3)]
    assert np.mean(seen) > 0.95
    assert np.mean(unseen) < 0.8


def test_an_entry_of_the_info_becomes_a_part_that_only_the_critic_sees() -> None:
    ppo = PPO(partial(HiddenStakes, in_info=True), seed=3, critic_obs=("info.stakes",), **PPO_LIKE)
    ppo.train(total_timesteps=64)
    codec = ppo.components.actor.observations
    obs = {"signal": np.ones(2, np.float32)}
    assert np.array_equal(codec.split(codec.encode_one({**obs, "info.stakes": 5.0}))["info.stakes"], [[5.0]])
    assert ppo.predict(obs) == ppo.predict({**obs, "info.stakes": np.float32(5.0)})
    env = InfoParts(HiddenStakes(in_info=True), ["stakes"], "Stakes")
    seen, info = env.reset(seed=1)
    for _ in range(4):
        assert seen["info.stakes"] == np.float32(info["stakes"])
        assert env.observation_space.contains(seen)
        seen, _, _, _, info = env.step(1)


def test_an_observation_without_parts_becomes_one_beside_the_entry_of_the_info() -> None:
    class Counter(HiddenStakes):
        def __init__(self) -> None:
            super().__init__(in_info=True)
            self.observation_space = self.observation_space["signal"]

        def _draw(self) -> tuple[Any, dict[str, Any]]:
            obs, info = super()._draw()
            return obs["signal"], info

    seen, _ = InfoParts(Counter(), ["stakes"], "Counter").reset(seed=1)
    assert list(seen) == ["observation", "info.stakes"]
    ppo = PPO(Counter, seed=3, critic_obs=("info.stakes",), **PPO_LIKE)
    ppo.train(total_timesteps=64)
    assert len(ppo.evaluate(4).returns) == 4
    alone, named = np.ones(2, np.float32), {"observation": np.ones(2, np.float32)}
    assert ppo.predict(alone) == ppo.predict(named)
    assert np.array_equal(ppo.predict(np.stack([alone] * 3)), [ppo.predict(alone)] * 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DQN(HiddenStakes, critic_obs=("stakes",)), "dqn has no critic that can see more than its"),
        (lambda: PQN(HiddenStakes, critic_obs=("stakes",)), "pqn has no critic that can see more than its"),
        (lambda: build("ppo", critic_obs=("stake",)), "has no part 'stake'.*did you mean 'stakes'"),
        (lambda: build("ppo", critic_obs=("stakes", "signal")), "the actor would see nothing"),
        (lambda: build("ppo, one encoder", critic_obs=("signal",)), "part 'signal' of .* has an image"),
        (lambda: build("ppo", backend="native"), "the actor sees all that the critic sees"),
        (lambda: build("sac", backend="native"), "the actor sees all that the critic sees"),
        (lambda: build("ppo", policy="helpers.policies:UserMlp"), "a policy of your own gets whole obs"),
        (lambda: PPO("CartPole-v1", critic_obs=("a",)), "CartPole-v1 runs in Rust"),
        (lambda: build("ppo", critic_obs=("info.",)), "names no entry of the info"),
        (lambda: build("ppo", critic_obs=("stakes", "stakes")), "a part is named twice"),
        (lambda: PPO(Pair, critic_obs=("1",)), "expected a Dict"),
        (
            lambda: TD3(GoalLine, hindsight="future", critic_obs=("info.x",)),
            "the info for another goal is not known",
        ),
        (
            lambda: PPO(
                lambda num_envs: SyncVectorEnv([HiddenStakes] * num_envs), critic_obs=("info.stakes",)
            ),
            "need environments that are stepped one by one",
        ),
        (lambda: PPO("Acrobot-v1", critic_obs=("a",), env_backend="gymnasium"), "expected a Dict"),
        (
            lambda: build("recurrent_ppo", enable_critic_lstm=False, shared_lstm=True),
            "the actor's recurrent layers, which do not see",
        ),
        (lambda: build("recurrent_ppo, images", share_encoder=True), "set algo.share_encoder=false"),
    ],
)
def test_a_setting_that_does_not_fit_critic_obs_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "has nothing, expected 'stakes'"), ({"stakes": "high"}, "expected .* of numbers"),
     ({"stakes": [1.0, 2.0]}, r"has shape \(2,\)"), ({"stakes": []}, r"has shape \(0,\)")],
)  # fmt: skip
def test_an_info_without_the_entry_stops_the_run(given: dict[str, Any], message: str) -> None:
    class Forgetful(HiddenStakes):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], given

    ppo = PPO(partial(Forgetful, in_info=True), critic_obs=("info.stakes",), **PPO_LIKE)
    with pytest.raises(EnvError, match=message):
        ppo.train(total_timesteps=64)


@pytest.mark.parametrize(
    ("entry", "message"),
    [(np.zeros((4, 4, 3), np.uint8), "is an image of shape"), (np.zeros((0, 2)), r"has shape \(0, 2\)")],
)
def test_an_image_and_an_empty_array_are_no_entry_of_numbers(entry: Any, message: str) -> None:
    class Other(HiddenStakes):
        def _draw(self) -> tuple[Any, dict[str, Any]]:
            return super()._draw()[0], {"stakes": entry}

    with pytest.raises(EnvError, match=message):
        PPO(partial(Other, in_info=True), critic_obs=("info.stakes",), **PPO_LIKE)


def test_the_last_observation_of_a_truncated_episode_has_the_entry_of_its_own_step() -> None:
    class Clock(HiddenStakes):
        """Every episode is truncated after its third step; the entry counts the steps of the episode."""

        def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
            self._steps = 0
            return super().reset(**options)[0], {"steps": 0.0}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self._steps += 1
            return super().step(action)[0], 0.0, False, self._steps == 3, {"steps": float(self._steps)}

    seen: list[Any] = []
    ppo = PPO(partial(Clock, in_info=True), seed=3, critic_obs=("info.steps",), **PPO_LIKE)
    update = ppo.learner.update
    ppo.learner.update = lambda batch, clock: (seen.append(batch.next_obs().clone()), update(batch, clock))[1]
    ppo.train(total_timesteps=32)
    next_steps = ppo.components.actor.observations.split(seen[0])["info.steps"]
    assert next_steps.flatten()[::2].tolist() == [1.0, 2.0, 3.0] * 5 + [1.0]


def test_a_vector_engine_of_dicts_keeps_the_part_from_the_actor() -> None:
    algorithm = PPO(
        lambda num_envs: SyncVectorEnv([HiddenStakes] * num_envs), seed=3, critic_obs=("stakes",), **PPO_LIKE
    )
    algorithm.train(total_timesteps=64)
    assert predicted(algorithm, -3.0) == predicted(algorithm, 3.0) == predicted(algorithm, None)
    assert not torch.equal(
        values_of(algorithm, rows_of(algorithm, -3.0)), values_of(algorithm, rows_of(algorithm, 3.0))
    )


def test_a_part_that_the_actor_needs_may_not_be_missing() -> None:
    ppo = build("ppo")
    with pytest.raises(ShapeError, match=re.escape("has the parts ['stakes'], expected")):
        ppo.predict({"stakes": np.zeros(1, np.float32)})


def test_a_mask_stays_where_it_was_in_the_row() -> None:
    env = MaskActions(HiddenStakes(masked=True), "observation", "action_mask", "Stakes")
    codec = with_critic_parts(codec_of(env.observation_space), EnvConfig(critic_obs=("stakes",)))
    assert codec.actor_numbers == [0, 1]
    assert (codec.input_dim, codec.mask_dim) == (3, 2)


def test_weights_of_a_run_with_other_parts_for_the_critic_are_refused(tmp_path: Path) -> None:
    first = PPO(TwoStates, critic_obs=("stakes",), **PPO_LIKE)
    first.train(total_timesteps=32)
    first.save(tmp_path / "first")
    PPO(TwoStates, critic_obs=("stakes",), init_from=str(tmp_path / "first"), **PPO_LIKE)
    for other in (("state",), ()):
        with pytest.raises(ConfigError, match=re.escape("its actor learned with env.critic_obs=['stakes']")):
            PPO(TwoStates, critic_obs=other, init_from=str(tmp_path / "first"), backend="torch", **PPO_LIKE)


def test_a_part_of_the_environment_may_be_named_as_an_entry_of_the_info() -> None:
    class Named(HiddenStakes):
        def __init__(self) -> None:
            super().__init__()
            parts: Any = self.observation_space
            self.observation_space = spaces.Dict({"signal": parts["signal"], "info.stakes": parts["stakes"]})

        def _draw(self) -> tuple[Any, dict[str, Any]]:
            obs, info = super()._draw()
            return {"signal": obs["signal"], "info.stakes": obs["stakes"] + 10}, info

    ppo = PPO(Named, critic_obs=("info.stakes",), **PPO_LIKE)
    ppo.train(total_timesteps=32)
    rows = ppo.components.source.collector.last_batch()["obs"]
    codec = ppo.components.actor.observations
    assert set(np.unique(codec.split(rows)["info.stakes"])) == {9.0, 11.0}


def test_normalised_observations_and_worker_processes_keep_the_part_from_the_actor() -> None:
    algorithm = build("ppo, info", normalize_obs=True, workers="subprocess")
    try:
        algorithm.train(total_timesteps=64)
        assert predicted(algorithm, -3.0) == predicted(algorithm, 3.0) == predicted(algorithm, None)
        values = [
            values_of(algorithm, torch.from_numpy(algorithm.components.actor.normalize(rows.numpy())))
            for rows in (rows_of(algorithm, -3.0), rows_of(algorithm, 3.0))
        ]
        assert not torch.equal(*values)
    finally:
        algorithm.close()
