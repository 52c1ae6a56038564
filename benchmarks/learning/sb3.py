"""Stable-Baselines3 with the hyperparameters of conf/tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import gymnasium as gym
import numpy as np

PACKAGES = ("stable-baselines3", "torch", "numpy", "gymnasium")
DEFAULTS = {"learning_rate": 3e-4, "clip_eps": 0.2}  # PPO's, where only the schedule is given
NAMES = {"learning_rate": "learning_rate", "clip_eps": "clip_range"}  # rlox's key -> SB3's
POLICY = ("net_arch", "log_std_init")  # SB3 wants these as arguments of the policy
SCHEDULES = {"anneal_lr": "learning_rate", "anneal_clip": "clip_eps"}
Wrap = Callable[[type], type]


def plain(kind: type) -> type:
    """The class as it is."""
    return kind


def make(algo: str, env: str, preset: Mapping[str, Any], seed: int, wrap: Wrap = plain) -> Any:
    """An untrained model on one torch thread; `wrap` may make another class of its class."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    settings, arguments = preset["env"], translate(preset)
    vec = make_vec_env(env, settings["n_envs"], seed=seed)
    if (sigma := arguments.pop("exploration_noise", None)) is not None:
        arguments["action_noise"] = _noise(vec.action_space.shape, sigma)
    kinds = {f"norm_{k}": bool(settings.get(f"normalize_{k}")) for k in ("obs", "reward")}
    if any(kinds.values()):
        vec = VecNormalize(vec, gamma=arguments.get("gamma", 0.99), **kinds)
    kind = wrap(getattr(stable_baselines3, algo.upper()))
    return kind("MlpPolicy", vec, seed=seed, device="cpu", **arguments)


def translate(preset: Mapping[str, Any]) -> dict[str, Any]:
    """A preset of rlox as arguments of the model.

    Whatever has the same name there is passed as it is, so that a key which Stable-Baselines3 does not
    know is an error and none is dropped.
    """
    given = dict(preset["algo"])
    falling = {of for key, of in SCHEDULES.items() if given.pop(key, False)}
    arguments: dict[str, Any] = {}
    for name in NAMES:
        value = given.pop(name, DEFAULTS[name] if name in falling else None)
        if value is not None:
            arguments[NAMES[name]] = _linear(value) if name in falling else value
    policy = {k: given.pop(k) for k in POLICY if k in given}
    if policy:
        arguments["policy_kwargs"] = policy
    capacity = preset.get("buffer", {}).get("capacity")
    return arguments | given | ({"buffer_size": capacity} if capacity else {})


def _linear(first: float) -> Callable[[float], float]:
    """From `first` to 0 over the run."""
    return lambda remaining: remaining * first


def _noise(shape: tuple[int, ...], sigma: float) -> Any:
    """Of the deterministic policy, in units of the half range of an action, as ours."""
    from stable_baselines3.common.noise import NormalActionNoise

    return NormalActionNoise(np.zeros(shape), np.full(shape, sigma))


def train(model: Any, steps: int) -> list[tuple[int, float]]:
    """When each episode of training ended, in environment steps, and what it returned."""
    from stable_baselines3.common.callbacks import BaseCallback

    ends: list[tuple[int, float]] = []

    class Note(BaseCallback):
        def _on_step(self) -> bool:
            done = [info["episode"] for info in self.locals["infos"] if "episode" in info]
            ends.extend((self.num_timesteps, float(e["r"])) for e in done)
            return True

    model.learn(steps, callback=Note())
    return ends


def evaluate(model: Any, env: str, episodes: int, first_seed: int) -> list[float]:
    """Returns of whole episodes of the deterministic policy, normalisers frozen."""
    normalizer = model.get_vec_normalize_env()
    returns = []
    for i in range(episodes):
        one = gym.make(env)
        obs, _ = one.reset(seed=first_seed + i)
        total, ended = 0.0, False
        while not ended:
            seen = normalizer.normalize_obs(obs) if normalizer else obs
            action, _ = model.predict(seen, deterministic=True)
            obs, reward, terminated, truncated, _ = one.step(action)
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def provenance() -> dict[str, Any]:
    """What ran."""
    return {"packages": {name: version(name) for name in PACKAGES}}
