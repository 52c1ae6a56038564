"""Stable-Baselines3 and sb3-contrib with hyperparameters in the form of conf/tuned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.configs.schedules import schedule_value
from rlox.envs.ids import find_spec
from rlox.envs.wrappers import WRAPPERS_BY_NAME

PACKAGES = ("stable-baselines3", "torch", "numpy", "gymnasium")
DEFAULTS = {"learning_rate": 3e-4, "clip_eps": 0.2}  # PPO's, if only the schedule is given
NAMES = {"learning_rate": "learning_rate", "clip_eps": "clip_range"}  # rlox's key -> SB3's
POLICY = (  # SB3 takes these as arguments of the policy
    "net_arch", "log_std_init", "ortho_init", "n_quantiles", "lstm_hidden_size", "enable_critic_lstm",
)  # fmt: skip
ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh"}
SCHEDULES = {"anneal_lr": "learning_rate", "anneal_clip": "clip_eps"}
ClassWrapper = Callable[[type], type]


def identity(model_class: type) -> type:
    """Return the class unchanged."""
    return model_class


def make(
    algo: str,
    env: str,
    preset: Mapping[str, Any],
    seed: int,
    wrap: ClassWrapper = identity,
    make_games: Callable[[int], Any] | None = None,
) -> Any:
    """Make an untrained model on one torch thread.

    `wrap` may derive a class from the model's class. `make_games(n_envs)` makes vectorised environments
    instead of `env_factory`.
    """
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    settings, arguments = preset["env"], translate(preset)
    if make_games is None:
        vec = make_vec_env(env_factory(env, settings), settings["n_envs"], seed=seed)
    else:
        vec = make_games(settings["n_envs"])
    if (sigma := arguments.pop("exploration_noise", None)) is not None:
        arguments["action_noise"] = _action_noise(vec.action_space.shape, sigma)
    normalize_options = {f"norm_{k}": bool(settings.get(f"normalize_{k}")) for k in ("obs", "reward")}
    if any(normalize_options.values()):
        vec = VecNormalize(vec, gamma=arguments.get("gamma", 0.99), **normalize_options)
    model_class, policy = _model_class(algo, preset)
    return wrap(model_class)(policy, vec, seed=seed, device="cpu", **arguments)


def _model_class(algo: str, preset: Mapping[str, Any]) -> tuple[type, str]:
    """Return the class that implements the preset, and its policy."""
    if algo == "recurrent_ppo":
        return _import_class("sb3_contrib", "RecurrentPPO"), "MlpLstmPolicy"
    if algo == "ppo" and "action_mask" in preset["env"]:
        return _import_class("sb3_contrib", "MaskablePPO"), "MlpPolicy"
    if algo == "dqn" and preset["algo"].get("distribution") == "quantile":
        return _import_class("sb3_contrib", "QRDQN"), "MlpPolicy"
    policy = "CnnPolicy" if "encoder" in preset["algo"] else "MlpPolicy"
    return _import_class("stable_baselines3", algo.upper()), policy


def _import_class(library: str, name: str) -> type:
    imported: type = getattr(import_module(library), name)
    return imported


def env_factory(env: str, settings: Mapping[str, Any]) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes the environment in the wrappers of the settings."""

    def make_env() -> gym.Env[Any, Any]:
        find_spec(env)  # registers environments of other packages
        environment = gym.make(env)
        for name in settings.get("wrappers", ()):
            environment = WRAPPERS_BY_NAME[name](environment)
        if settings.get("normalize_obs") and _is_integer_box(environment.observation_space):
            environment = gym.wrappers.DtypeObservation(environment, np.float32)
        return ActionMaskWrapper(environment) if settings.get("action_mask") == "info" else environment

    return make_env


def _is_integer_box(space: gym.Space[Any]) -> bool:
    """Return whether SB3's buffers (2.9.2) would truncate standardised numbers to integers."""
    return isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.integer)


class ActionMaskWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Give sb3-contrib the mask of the last info through the method that it calls."""

    mask: Any = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(**options)
        self.mask = info["action_mask"]
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; its info may lack a mask if the episode has ended."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.mask = info.get("action_mask", self.mask)
        return obs, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the allowed actions, `[n]`."""
        return np.asarray(self.mask, bool)


def translate(preset: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a preset of rlox into arguments of the model.

    A setting with the same name in Stable-Baselines3 is passed unchanged. So a key that Stable-Baselines3
    does not know is an error, and no key is dropped.
    """
    settings = dict(preset["algo"])
    annealed_names = {setting for key, setting in SCHEDULES.items() if settings.pop(key, False)}
    arguments: dict[str, Any] = {}
    for name in NAMES:
        value = settings.pop(name, DEFAULTS[name] if name in annealed_names else None)
        if value is not None:
            arguments[NAMES[name]] = _schedule(name, f"lin_{value}" if name in annealed_names else value)
    if settings.get("distribution") == "quantile":
        del settings["distribution"]  # the class implies it
    policy = {k: settings.pop(k) for k in POLICY if k in settings}
    if "adam_eps" in settings:
        policy["optimizer_kwargs"] = {"eps": settings.pop("adam_eps")}
    if "activation" in settings:
        policy["activation_fn"] = _import_class("torch.nn", ACTIVATIONS[settings.pop("activation")])
    policy |= _encoder_options(settings.pop("encoder", None), settings.pop("encoder_features", None))
    if policy:
        arguments["policy_kwargs"] = policy
    capacity = preset.get("buffer", {}).get("capacity")
    return arguments | settings | ({"buffer_size": capacity} if capacity else {})


def _schedule(name: str, value: Any) -> Any:
    """Return a number unchanged, `lin_2.5e-4` as a function of the remaining fraction of the run."""
    if not isinstance(value, str):
        return value
    return lambda remaining: schedule_value(value, remaining, name, "(-inf, inf)")


def _encoder_options(encoder: str | None, features: int | None) -> dict[str, Any]:
    """Return the features extractor of images; Stable-Baselines3 has `nature` itself."""
    if encoder is None:
        return {}
    kinds = {
        "nature": ("stable_baselines3.common.torch_layers", "NatureCNN"),
        "small": ("sb3_small", "SmallCNN"),
    }
    width = {} if features is None else {"features_extractor_kwargs": {"features_dim": features}}
    return {"features_extractor_class": _import_class(*kinds[encoder]), **width}


def _action_noise(shape: tuple[int, ...], sigma: float) -> Any:
    """Return noise for the deterministic policy, in units of half the range of an action, as in rlox."""
    from stable_baselines3.common.noise import NormalActionNoise

    return NormalActionNoise(np.zeros(shape), np.full(shape, sigma))


def train(model: Any, steps: int) -> list[tuple[int, float]]:
    """Train, and return the environment step and the return at the end of each episode."""
    from stable_baselines3.common.callbacks import BaseCallback

    episode_ends: list[tuple[int, float]] = []

    class EpisodeRecorder(BaseCallback):
        def _on_step(self) -> bool:
            finished = [info["episode"] for info in self.locals["infos"] if "episode" in info]
            episode_ends.extend((self.num_timesteps, float(e["r"])) for e in finished)
            return True

    model.learn(steps, callback=EpisodeRecorder())
    return episode_ends


def evaluate(
    model: Any, make_env: Callable[[], gym.Env[Any, Any]], episodes: int, first_seed: int
) -> list[float]:
    """Return the returns of whole episodes of the deterministic policy, with frozen normalisation."""
    normalizer = model.get_vec_normalize_env()
    masked = "action_masks" in signature(model.predict).parameters
    returns = []
    for i in range(episodes):
        env = make_env()
        obs, _ = env.reset(seed=first_seed + i)
        total, is_over, state, first = 0.0, False, None, True
        while not is_over:
            policy_obs = normalizer.normalize_obs(obs) if normalizer else obs
            predict_options: dict[str, Any] = {"state": state, "episode_start": np.array([first])}
            if masked:
                predict_options["action_masks"] = env.get_wrapper_attr("action_masks")()
            action, state = model.predict(policy_obs, deterministic=True, **predict_options)
            env_action = action.item() if action.ndim == 0 else action  # Taxi uses it as a key
            obs, reward, terminated, truncated, _ = env.step(env_action)
            total, is_over, first = total + float(reward), terminated or truncated, False
        returns.append(total)
    return returns


def provenance(model: Any) -> dict[str, Any]:
    """Return the versions of the packages."""
    is_contrib = type(model).__module__.startswith("sb3_contrib")
    names = (*PACKAGES, *(["sb3-contrib"] if is_contrib else []))
    return {"packages": {name: version(name) for name in names}}
